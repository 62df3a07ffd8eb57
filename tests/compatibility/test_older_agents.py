"""The agent of each release under this client: a run that an older client prepared, and an older agent executes, is
followed, entered and ended by the commands of this one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from compatibility import golden
from driver import Cli, wait_for

GATED = "echo rank $RANK; while ! test -e outputs/go; do sleep 0.02; done; echo done > outputs/answer-$RANK.txt"
OF_AN_END = ("result.json", "handle.json", "cancel.json")


@contextmanager
def executed(cli: Cli, release: str) -> Iterator[str]:
    """A run of the release that has begun, under its own agent."""
    run = golden.unpack(golden.GOLDEN / release / "local-succeeded.tar.gz", cli.home)
    root = Path(cli.path(run))
    made_later = [*(root / "attempt-0").rglob("*"), *(root / "outputs").iterdir(), *(root / name for name in OF_AN_END)]
    for file in made_later:
        if not file.is_dir():
            file.unlink(missing_ok=True)
    agent = shutil.copy(golden.GOLDEN / release / golden.AGENT, root / "agent.pyz")
    plan = root / "plan.json"
    plan.write_text(json.dumps({**json.loads(plan.read_text()), "argv": ["sh", "-c", GATED]}))
    with subprocess.Popen(
        [sys.executable, agent, str(root), "--conduct"],
        env={**cli.environ, "PYTHONPATH": ""},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ):
        wait_for(lambda: cli.has_begun(run))
        yield run
        wait_for(lambda: os.path.exists(cli.path(run, "result.json")))


@pytest.mark.parametrize("release", golden.releases())
def test_it_is_followed_to_its_end(release: str, cli: Cli) -> None:
    with executed(cli, release) as run:
        assert cli.status(run)["state"] == "RUNNING"
        wait_for(lambda: len(cli.ok("logs", run, "--fold", "off").lines) == 4)
        Path(cli.path(run, "outputs", "go")).touch()
        cli.ok("wait", run)
    names = {Path(each["path"]).name for each in cli.json("outputs", run)}
    assert names == {"go", *("answer-%d.txt" % rank for rank in range(4))}


@pytest.mark.parametrize("release", golden.releases())
def test_commands_enter_it_and_it_is_cancelled(release: str, cli: Cli) -> None:
    with executed(cli, release) as run:
        assert cli.ok("exec", run, "--node", "1", "--", "echo", "here").out.count("here") == 1
        groups = cli.json("stacks", run)
        assert groups
        cli.ok("cancel", run)
        assert cli("wait", run).code == 130
    assert cli.json("why", run)["cause"]["id"] == "cancelled"
