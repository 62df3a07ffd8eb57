"""An installation that is replaced, or removed, while its runs are running: the runs end as they would have ended, and
the new installation follows, cancels and explains them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import SOURCE, Cli, wait_for

GATED = """\
import os, time
while not os.path.exists("outputs/go"):
    time.sleep(0.02)
print("rank", os.environ["RANK"])
if os.environ["RANK"] == "1" and {fails}:
    raise ValueError("bad shard")
"""
REPLACED = 'raise RuntimeError("a module of another release: " + __file__)\n'


class OldInstallation(Cli):
    """A command line whose package lies apart, so a test can replace it."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.package = Path(root) / "installed" / "worldsize"
        shutil.copytree(Path(SOURCE) / "worldsize", self.package, ignore=shutil.ignore_patterns("__pycache__"))
        self.new = self.environ["PYTHONPATH"] or SOURCE
        self.environ.update(PYTHONPATH=str(self.package.parent), PYTHONDONTWRITEBYTECODE="1")

    def replace(self) -> None:
        """Give every module another content, as an incompatible release would; commands are the new one's from now."""
        for path in self.package.rglob("*.py"):
            new = path.with_suffix(".new")
            new.write_text(REPLACED)
            new.replace(path)
        self.environ["PYTHONPATH"] = self.new

    def remove(self) -> None:
        shutil.rmtree(self.package)
        self.environ["PYTHONPATH"] = self.new

    def open_gate(self, run: str) -> None:
        Path(self.path(run, "outputs", "go")).touch()


@pytest.fixture
def old(tmp_path: Path) -> Iterator[OldInstallation]:
    cli = OldInstallation(str(tmp_path))
    yield cli
    cli.close()


def submitted(old: OldInstallation, fails: bool) -> str:
    old.write("train.py", GATED.format(fails=fails))
    run = old.submit("-w", "2x2", "--", "python", "train.py")
    wait_for(lambda: old.has_begun(run))
    return run


def output_of_the_conductor(old: OldInstallation, run: str) -> str:
    return old.read(run, "attempt-0", "logs", "conductor.log")


def test_a_run_whose_installation_is_replaced_fails_as_before(old: OldInstallation) -> None:
    run = submitted(old, fails=True)
    old.replace()
    old.open_gate(run)
    assert old("wait", run).code == 1
    assert old.status(run)["failure"]["exception"]["message"] == "bad shard"
    assert old.json("why", run)["cause"]["id"] == "exception"
    assert output_of_the_conductor(old, run) == ""


@pytest.mark.exhaustive
def test_a_run_whose_installation_is_removed_succeeds(old: OldInstallation) -> None:
    run = submitted(old, fails=False)
    old.remove()
    old.open_gate(run)
    old.ok("wait", run)
    assert sorted(old.ok("logs", run, "--fold", "off").lines)[0] == "0:0: rank 0"
    assert output_of_the_conductor(old, run) == ""


@pytest.mark.exhaustive
def test_the_new_installation_cancels_it(old: OldInstallation) -> None:
    run = submitted(old, fails=False)
    old.replace()
    old.ok("cancel", run)
    assert old("wait", run).code == 130
    assert output_of_the_conductor(old, run) == ""


@pytest.mark.exhaustive
def test_runs_that_still_wait_in_a_queue_start(old: OldInstallation) -> None:
    old.write("train.py", GATED.format(fails=False))
    run = old.submit("--count", "2", "--at-once", "1", "--", "python", "train.py")
    wait_for(lambda: old.has_begun(run + "_0"))
    old.replace()
    for element in (run + "_0", run + "_1"):
        wait_for(lambda element=element: old.has_begun(element))  # type: ignore[misc]
        old.open_gate(element)
    old.ok("wait", run)


def test_the_command_that_follows_it_tells_in_one_sentence(old: OldInstallation) -> None:
    old.write("train.py", GATED.format(fails=True))
    with old.start("run", "-w", "2x2", "--", "python", "train.py") as process:
        wait_for(lambda: bool(list(Path(old.home).glob("runs/2*/attempt-0/events/node-0000.jsonl"))))
        run = old.latest()
        wait_for(lambda: old.has_begun(run))
        old.replace()
        old.open_gate(run)
        err = process.communicate(timeout=60)[1].decode()
    assert process.returncode == 1
    assert "Traceback" not in err and "defect" not in err
    assert old.status(run)["state"] == "FAILED"
    assert "replaced or removed while the command ran" in err
