"""TensorBoard files that ranks write outside of their run's directory."""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Cli

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics.tensorboard import read_tensorboard
from worldsize.wings.metrics.tensorboard.crc32c import masked_crc32c

SCRIPT = """\
import os, sys, time
rank, here = os.environ["RANK"], os.uname().nodename
file = open("%%s/%%s/events.out.tfevents.%%d.%%s" %% (%(where)s, rank, time.time(), here), "wb")
file.write(%(data)r)
file.flush()
while %(wait)s and not os.path.exists(os.environ["WORLDSIZE_RUN_DIR"] + "/attempt-0/metrics/files-0000.jsonl"):
    time.sleep(0.01)
"""


def record(step: int, value: float) -> bytes:
    """A scalar called "loss"."""
    summary = b"\x0a\x0b\x0a\x04loss\x15" + struct.pack("<f", value)
    data = b"\x09" + struct.pack("<d", 1e9 + step) + bytes((0x10, step, 0x2A, len(summary))) + summary
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc32c(length)) + data + struct.pack("<I", masked_crc32c(data))


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(str(tmp_path))
    yield cli
    cli.close()


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    for rank in ("0", "1"):
        (tmp_path / "scratch" / rank).mkdir(parents=True)
    return tmp_path / "scratch"


def read(cli: Cli, run: str) -> list[tuple[str, int | None, list[float]]]:
    series = read_tensorboard(RunPaths(cli.path(run)))
    return [(each.place, each.rank, [point.value for point in each.points]) for each in series]


def test_agents_see_what_ranks_hold_open(cli: Cli, scratch: Path) -> None:
    values = {"where": repr(str(scratch)), "data": record(1, 0.5) + record(2, 0.25), "wait": True}
    cli.write("train.py", SCRIPT % values)
    run = cli.run("-w", "1x2", "--", sys.executable, "train.py")
    assert read(cli, run) == [(str(scratch / rank), int(rank), [0.5, 0.25]) for rank in ("0", "1")]


def test_files_in_a_directory_that_the_command_names(cli: Cli, scratch: Path) -> None:
    cli.write("train.py", SCRIPT % {"where": "sys.argv[1]", "data": record(1, 0.5), "wait": False})
    run = cli.run("-w", "1x2", "--", sys.executable, "train.py", str(scratch))
    assert read(cli, run) == [(str(scratch / rank), None, [0.5]) for rank in ("0", "1")]
