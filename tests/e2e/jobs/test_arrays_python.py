"""Several runs at once, and runs that wait, from Python."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest
from driver import wait_for

import worldsize
from worldsize import RunArray, RunFailed, command, open_array, open_run, submit
from worldsize.errors import UsageError


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WORLDSIZE_SITE_CONFIG", str(tmp_path / "no-site.toml"))
    return tmp_path / "home"


def job(text: str = "echo ${{inputs.lr}} ${{inputs.n}}") -> worldsize.CommandJob:
    return command(command=text, inputs={"lr": 0.1, "n": 0})


def test_a_matrix_is_a_sequence_of_runs(home: Path) -> None:
    runs = submit(job(), matrix={"lr": (0.1, 0.2), "n": range(2)}, at_once=2)
    assert isinstance(runs, RunArray)
    assert runs.wait(timeout=30, check=True) == runs.status == "SUCCEEDED"
    assert runs.states() == {"SUCCEEDED": 4} and len(runs) == 4
    assert [run.logs(rank=0) for run in runs] == ["0.1 0\n", "0.1 1\n", "0.2 0\n", "0.2 1\n"]
    assert [run.id for run in runs[1:3]] == [runs.id + "_1", runs.id + "_2"]
    assert runs[-1].status == "SUCCEEDED" and runs.values(3) == {"lr": 0.2, "n": 1}
    with pytest.raises(IndexError, match="no element 4"):
        runs[4]
    again = open_array(runs.id)
    assert (again.status, again.directory) == ("SUCCEEDED", runs.directory)
    with pytest.raises(UsageError, match="open_array"):
        open_run()
    with pytest.raises(UsageError, match="open_run"):
        open_array(runs.id + "_0")


def test_from_a_process_with_threads(home: Path) -> None:
    """A fork would copy the locks that they hold."""
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        runs = submit(job("echo $SLURM_ARRAY_TASK_ID"), count=3)
        after = submit(command(command="true"), after=[runs, runs.id])
        assert after.wait(timeout=30) == "SUCCEEDED"
        assert [run.logs(rank=0) for run in runs] == ["0\n", "1\n", "2\n"]
    finally:
        stop.set()
        thread.join()


def test_a_job_that_says_so_itself(home: Path) -> None:
    several = command(command="true", count=2)
    assert isinstance(submit(several), RunArray)
    Path("job.yml").write_text("command: 'exit ${{inputs.code}}'\ninputs: {code: 0}\nmatrix: {code: [0, 5]}\n")
    runs = submit("job.yml")
    assert isinstance(runs, RunArray)
    with pytest.raises(RunFailed) as caught:
        runs.wait(timeout=30, check=True)
    assert caught.value.exit_code == 5 and "_1: rank 0" in str(caught.value)


def test_cancel_and_time_out(home: Path) -> None:
    runs = submit(job("sleep 60"), count=4, at_once=2)
    with pytest.raises(TimeoutError):
        runs.wait(timeout=0.3)
    assert runs.cancel().state in ("QUEUED", "RUNNING")
    assert runs.wait(timeout=30) == "CANCELLED"
    assert runs.cancel().state == "CANCELLED"


def test_a_run_that_waits_for_one_that_is_killed(home: Path) -> None:
    first = submit(command(command="sleep 60"))
    never, later = submit(command(command="true"), after=first), submit(command(command="true", count=2), after=())
    assert never.status == "QUEUED"
    handle = first.native()
    assert handle is not None
    os.kill(handle["pid"], signal.SIGKILL)
    wait_for(lambda: never.status == "FAILED")
    assert never.look().reason == "DEPENDENCY" and first.status in ("LOST", "FAILED")
    assert later.wait(timeout=30) == "SUCCEEDED"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"matrix": {"rl": [1]}}, "submit(): matrix.rl: names none of the job's inputs"),
        ({"matrix": {"lr": "ab"}}, "submit(): matrix.lr: expected a list of values"),
        ({"matrix": {"lr": 1}}, "submit(): matrix.lr: expected a list of values"),
        ({"matrix": {"lr": [{}]}}, "submit(): matrix.lr[0]: expected a literal"),
        ({"matrix": [1]}, "submit(): matrix: expected a mapping"),
        ({"matrix": {"lr": [1]}, "count": 2}, "submit(): count: cannot be combined with a matrix"),
        ({"count": 10_001}, "submit(): count: is 10001, must be 1 to 10000"),
        ({"at_once": 2}, "at_once has no meaning for a single run"),
        ({"after": "nobody"}, "no run is named 'nobody'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_created(home: Path, given: dict, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        submit(job(), **given)
    assert message in str(caught.value)
    assert not (home / "runs").exists()
