"""Trials with real processes, which stand in for launchers: their times, and that nothing of them is left."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from worldsize.wings.bench.launch import trial
from worldsize.wings.bench.launch.rounds import PROBE
from worldsize.wings.bench.launch.trial import Trial, run_trial

pytestmark = pytest.mark.heavy

LAUNCHER = """
import os, subprocess, sys
mode, ranks, directory, behaviour = sys.argv[2:6]
def start(rank):
    environ = {**os.environ, "RANK": str(rank), "WORLD_SIZE": ranks}
    return subprocess.Popen([sys.executable, "-S", "-E", *sys.argv[1:5]], env=environ)
children = [start(rank) for rank in range(int(ranks))]
if behaviour == "leaves":
    subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
if behaviour == "holds":
    subprocess.Popen(["sleep", "600"], start_new_session=True)
code = children[-1].wait()
if code and behaviour == "waits":
    children[0].wait()
if code:
    children[0].kill()
for child in children:
    child.wait()
sys.exit(code)
"""


def started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool = False, behaviour: str = "", limit: float = 60.0
) -> Trial:
    monkeypatch.setattr(trial, "_GRACE", 0.2)
    (tmp_path / "meet").mkdir()
    mode = "failing" if fails else "first"
    words = [sys.executable, "-S", "-E", "-c", LAUNCHER, PROBE, mode, "2", str(tmp_path / "meet"), behaviour]
    return run_trial(words, dict(os.environ), str(tmp_path), 2, fails, limit)


@pytest.fixture(autouse=True)
def marks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The marks of trials; afterwards there is no process that carries one."""
    found: list[str] = []
    monkeypatch.setattr(trial.secrets, "token_hex", lambda size: found.append(os.urandom(size).hex()) or found[-1])
    yield found
    assert [trial.marked_processes(mark) for mark in found] == [[]] * len(found)


@pytest.mark.parametrize("fails", [False, True])
def test_ranks_begin_and_meet_and_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    found = started(tmp_path, monkeypatch, fails)
    assert (found.failure, found.left) == ("", 0)
    assert found.first is not None and found.step is not None and found.over is not None
    assert 0 < found.first <= found.step < 60 and 0 <= found.over < 60


@pytest.mark.parametrize("behaviour", ["leaves", "holds"])
def test_what_is_left_is_counted_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str) -> None:
    """Whether it holds the output open or not."""
    found = started(tmp_path, monkeypatch, behaviour=behaviour)
    assert (found.left, found.over, found.failure) == (1, None, "")
    assert found.first is not None and found.step is not None


def test_what_goes_on_after_a_failure_is_told_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listened = threading.Event()
    take = trial._take

    def taken(line: bytes, *more: object) -> bool:
        if b"failing" in line:
            listened.set()
        return take(line, *more)  # type: ignore[arg-type]

    clock = trial.time.time
    monkeypatch.setattr(trial, "_take", taken)
    monkeypatch.setattr(trial.time, "time", lambda: clock() + (1000.0 if listened.is_set() else 0.0))
    found = started(tmp_path, monkeypatch, fails=True, behaviour="waits")
    assert (found.failure, found.over, found.endless, found.left) == ("", None, 60.0, 0)


def test_a_flood_and_a_line_without_an_end_are_bounded(tmp_path: Path) -> None:
    script = "head -c 3000000 /dev/zero; yes rubbish | head -c 3000000; echo; echo cannot do that; printf '%s' last"
    found = run_trial(["sh", "-c", script], dict(os.environ), str(tmp_path), 1, False, 60.0)
    assert found == Trial(failure="not every rank has started: cannot do that")


def test_what_cannot_be_started(tmp_path: Path) -> None:
    found = run_trial([str(tmp_path / "none")], dict(os.environ), str(tmp_path), 1, False, 60.0)
    assert found == Trial(failure="it cannot be started: No such file or directory")


@pytest.mark.parametrize(("script", "says"), [("trap 'echo 1 >ended; exit' TERM", True), ("trap '' TERM", False)])
def test_an_interrupted_command_is_asked_first_and_then_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, says: bool
) -> None:
    """A run on a cluster has to be cancelled by the command that has started it."""

    def interrupt(*_: object) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(trial, "_take", interrupt)
    monkeypatch.setattr(trial, "_CANCELLED_WITHIN", 30.0 if says else 0.2)
    words = ["sh", "-c", script + "; sleep 600 & echo ready; wait"]
    with pytest.raises(KeyboardInterrupt):
        run_trial(words, dict(os.environ), str(tmp_path), 1, False, 60.0, signal.SIGTERM)
    assert (tmp_path / "ended").exists() == says


def test_processes_of_others_are_never_looked_at(tmp_path: Path) -> None:
    assert trial.marked_processes("0" * 32) == []
