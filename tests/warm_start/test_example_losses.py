"""The examples that fix their seeds have bitwise the same losses cold and warm; those whose ranks torchrun starts, or a
framework with an environment of its own, are not among them."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from driver import Cli

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = [pytest.mark.exhaustive, pytest.mark.training]


def losses(cli: Cli, job: str, preload: str) -> list[str]:
    """The lines with losses that the first rank has printed."""
    run = cli.run(job, "--set", "preload=" + preload)
    started = next(each for each in cli.events(run, 0) if each["event"] == "ranks_started")
    assert started.get("start") == (None if preload == "off" else "warm")
    log = cli.read(run, "attempt-0", "logs", "rank-00000.log")
    return [line for line in log.splitlines() if "loss" in line]


@pytest.mark.parametrize("name", ["digits", "fsdp2-digits", "tensor-parallel-digits"])
def test_the_losses_are_bitwise_equal(cli: Cli, name: str) -> None:
    for each in (name, "fsdp2-digits") if name.startswith("tensor") else (name,):
        shutil.copytree(EXAMPLES / each, Path(cli.project, each))
    for source in Path(cli.project).glob("*/src/*.py"):
        source.write_text(re.sub(r"loss=%\.\d+f", "loss=%r", source.read_text()))
    cold, warm = (losses(cli, name + "/job.yml", preload) for preload in ("off", "auto"))
    assert warm == cold
    assert len(cold) > 1 and all(len(line.rpartition("=")[2]) > 10 for line in cold)
