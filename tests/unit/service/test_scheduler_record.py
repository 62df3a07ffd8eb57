"""What a scheduler says of the end of its job: kept once, and told in words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.common.atomic_files import write_json
from worldsize.compute.slurm.job_rows import QUEUE, JobRow
from worldsize.compute.slurm.observe import observation
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.scheduler_record import keep_scheduler_record, read_scheduler_record
from worldsize.state.records import Reason, RunState, Status

FAILED = Status(RunState.FAILED, Reason.EXIT_CODE, 1, "rank 1 exited with code 1")
HANDLE = {"type": "slurm", "job": "17", "run_id": "r"}


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    """Of a run of this user's own."""
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path))
    paths = RunPaths(str(tmp_path / "runs" / "r"))
    os.makedirs(paths.attempt_dir)
    write_json(paths.handle, HANDLE)
    return paths


def row(state: str, **fields: object) -> JobRow:
    return JobRow("17", QUEUE, state, nodes="n[1-2]", node_count=2, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (row("TIMEOUT", limit=60, elapsed=62), "reached its time limit (TIMEOUT), after 1 min 2 s of a limit of 1 min"),
        (row("DEADLINE"), "could not end before its deadline (DEADLINE)"),
        (row("PREEMPTED"), "was preempted by a job that goes first (PREEMPTED)"),
        (row("OUT_OF_MEMORY"), "ran out of memory (OUT_OF_MEMORY)"),
        (row("NODE_FAIL"), ": one of n[1-2] failed (NODE_FAIL)"),
        (row("BOOT_FAIL"), ": one of n[1-2] failed (BOOT_FAIL)"),
        (row("CANCELLED", cancelled_by=0), ": cancelled by root: an administrator, or Slurm itself"),
        (row("FAILED", exit_code="0:9"), "failed by signal 9 (KILL)"),
        (row("FAILED", exit_code="0:11"), "failed by signal 11 (SEGV)"),
    ],
)
def test_its_state_is_told_in_words(paths: RunPaths, said: JobRow, words: str) -> None:
    keep_scheduler_record(paths, HANDLE, observation(said))
    found = read_scheduler_record(paths, FAILED)
    assert found is not None and found.words in ("job 17 " + words, "job 17" + words)


@pytest.mark.parametrize(
    "said",
    [row("FAILED", exit_code="1:0"), row("FAILED", exit_code="0:15"), row("COMPLETED"), row("RUNNING")],
    ids=lambda each: "%s %s" % (each.state, each.exit_code),
)
def test_what_it_has_from_the_agents_is_not_kept(paths: RunPaths, said: JobRow) -> None:
    keep_scheduler_record(paths, HANDLE, observation(said))
    assert not os.path.exists(paths.scheduler_record) and read_scheduler_record(paths, FAILED) is None


def test_a_status_may_hold_it(paths: RunPaths) -> None:
    message = "Slurm: it reached its time limit (TIMEOUT), after 1 min"
    found = read_scheduler_record(paths, Status(RunState.FAILED, Reason.TIME_LIMIT, 1, message))
    assert found is not None
    assert (found.words, found.message) == ("job 17 reached its time limit (TIMEOUT), after 1 min", message)


def test_a_damaged_one_is_none(paths: RunPaths) -> None:
    with open(paths.scheduler_record, "w") as file:
        file.write('{"message": 7')
    assert read_scheduler_record(paths, FAILED) is None


def test_a_code_that_no_signal_has_is_a_code() -> None:
    found = observation(row("FAILED", exit_code="233:0"))
    assert (found.reason, found.message) == (Reason.EXIT_CODE, "Slurm: the job failed with code 233")
