"""Why a run ended whose allocation Slurm has ended, by sequences of what is seen: no processes, no seconds."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from slurm_fakes import FakeSlurm

from worldsize.common.atomic_files import write_json
from worldsize.compute.base import Compute, Handle
from worldsize.compute.slurm.compute import compute_of_run
from worldsize.compute.slurm.job_rows import QUEUE, UNANSWERED, JobRow
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.status import fold_observation, status_from_records
from worldsize.state.records import ExitRecord, Failure, Observation, Reason, RunState, Status
from worldsize.store.runs import create_run
from worldsize.wings.slurm_allocation.allocation_end import TOGETHER, explained_end

LIVES = Observation("running")
GONE = Observation("absent", message="its srun (process 1) is gone", over=True)
NOW = 1000.0
SAID = (
    "slurmstepd-n1: error: *** STEP 7.0 ON n1 CANCELLED AT … DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\n"
)


def row(state: str, reason: str = "", ended: float | None = None, nodes: str = "n[1-2]") -> JobRow:
    return JobRow("7", QUEUE, state, reason, nodes=nodes, node_count=2, exit_code="0:0", ended=ended)


def end(allocation: JobRow, last_words: float = NOW, now: float = NOW) -> tuple[str, str | None]:
    found = explained_end(GONE, allocation, last_words, now)
    return found.phase, found.reason


@pytest.mark.parametrize(
    ("allocation", "phase", "reason"),
    [
        (row("NODE_FAIL", "NodeDown", NOW), "absent", Reason.NODE_FAILURE),
        (row("TIMEOUT", "TimeLimit", NOW), "absent", Reason.TIME_LIMIT),
        (row("PREEMPTED", "", NOW), "absent", Reason.PREEMPTED),
        (row("COMPLETING", "NodeDown", nodes="n1"), "absent", Reason.NODE_FAILURE),
        (row("COMPLETING", "TimeLimit"), "absent", Reason.TIME_LIMIT),
        (row("COMPLETING"), "running", None),
        (row("RUNNING"), "absent", None),
        (row("COMPLETED", "", NOW), "absent", None),
        (row("CANCELLED", "", NOW), "absent", None),
        (row("OUT_OF_MEMORY", "", NOW), "absent", None),  # which of its steps that was is not told
        (JobRow("7", UNANSWERED, trouble="away"), "absent", None),
    ],
)
def test_what_slurm_tells_of_the_allocation(allocation: JobRow, phase: str, reason: str | None) -> None:
    assert end(allocation) == (phase, reason)


def test_a_run_that_had_ended_before_is_not_explained_by_it() -> None:
    late = NOW + TOGETHER + 1
    for ended in (row("NODE_FAIL", "NodeDown", late), row("TIMEOUT", "TimeLimit", late)):
        assert explained_end(GONE, ended, NOW, late) == GONE
    assert end(row("COMPLETING"), now=late) == end(row("COMPLETING", "NodeDown"), now=late) == ("absent", None)
    assert end(row("TIMEOUT", "TimeLimit", NOW), now=10 * late) == ("absent", Reason.TIME_LIMIT), "looked at later"


def test_it_is_told_in_words() -> None:
    after = "; this ended its allocation (job 7)"
    ended = explained_end(GONE, row("NODE_FAIL", "NodeDown", NOW), NOW, NOW)
    assert ended.message == "Slurm: one of n[1-2] failed (NODE_FAIL)" + after and ended.over
    cleaned = explained_end(GONE, row("COMPLETING", "NodeDown", nodes="n1"), NOW, NOW)
    assert cleaned.message == "Slurm: a node failed (NODE_FAIL)" + after, "not n1, which is only not clean yet"


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    """Of a run of two nodes that has begun."""
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path / "home"))
    paths = create_run(str(tmp_path / "home"))
    for directory in paths.directories():
        os.makedirs(directory, exist_ok=True)
    write_json(paths.record, {})
    write_json(paths.handle, handle_of(paths))
    Path(paths.batch_log).touch()
    return paths


def handle_of(paths: RunPaths) -> dict[str, Any]:
    """Its srun is gone."""
    mine = {"run_id": paths.run_id, "run_dir": paths.root}
    return {"type": "slurm-step", "job": "7", "pid": 1, "start_time": None, "host": socket.gethostname(), **mine}


def leave_records(paths: RunPaths, failure: Failure | None = None) -> None:
    """As agents do that were told to end, or that have told a failure of a rank."""
    for node in (0, 1):
        record = ExitRecord(node, "n", 0, 1.0, 2.0, (), "failure" if failure else "cancel", failure, 143)
        write_json(paths.exit_record(node), record.to_json())


class Bystander:
    """A compute that has nothing left to end."""

    def end_remains(self, handle: Handle) -> int:
        return 0


Seen = Callable[[Observation], Status]


@pytest.fixture
def seen(paths: RunPaths) -> Seen:
    """The status once the compute has said this."""
    plan = Plan(paths.run_id, "t", "slurm", 1.0, 0, node_major_layout(2, 1), ("true",), {})
    handle = handle_of(paths)

    def look(observation: Observation) -> Status:
        told = status_from_records(paths, plan, handle)
        return told or fold_observation(paths, cast(Compute, Bystander()), plan, handle, observation)

    return look


def test_agents_that_ended_before_their_node_heard_why(paths: RunPaths, seen: Seen) -> None:
    """Another node had told them to end: slurmstepd writes nothing, and only the allocation tells the reason."""
    assert seen(LIVES).state in (RunState.STARTING, RunState.RUNNING)
    leave_records(paths)
    assert seen(LIVES).state == RunState.STOPPING
    assert seen(explained_end(GONE, row("COMPLETING"), NOW, NOW)).state == RunState.STOPPING
    assert not os.path.exists(paths.result)
    status = seen(explained_end(GONE, row("COMPLETING", "NodeDown", nodes="n1"), NOW, NOW))
    assert (status.state, status.reason, status.exit_code) == (RunState.FAILED, Reason.NODE_FAILURE, 1)
    assert seen(GONE) == status, "it is settled"


def test_ranks_that_were_ended_before_their_agents_heard_why(paths: RunPaths, seen: Seen) -> None:
    leave_records(paths, Failure(Reason.SIGNAL, "rank 0 was ended", 0, 0, 143, 2.0))
    assert seen(LIVES).state == RunState.STOPPING
    assert seen(explained_end(GONE, row("PREEMPTED", "", NOW), NOW, NOW)).reason == Reason.PREEMPTED


@pytest.mark.parametrize("written_first", [True, False])
def test_what_slurmstepd_writes_may_come_before_the_records_or_after(
    paths: RunPaths, seen: Seen, written_first: bool
) -> None:
    """Where Slurm cannot be asked it is all that tells."""
    if written_first:
        Path(paths.batch_log).write_text(SAID)
    leave_records(paths)
    assert seen(LIVES).state == RunState.STOPPING
    Path(paths.batch_log).write_text(SAID)
    status = seen(explained_end(GONE, JobRow("7", UNANSWERED, trouble="away"), NOW, NOW))
    assert (status.state, status.reason) == (RunState.FAILED, Reason.NODE_FAILURE)


def test_an_end_that_somebody_here_asked_for_waits_for_nobody(paths: RunPaths, seen: Seen) -> None:
    write_json(paths.cancel, {})
    leave_records(paths)
    assert seen(LIVES).state == RunState.CANCELLED


def test_an_end_that_nobody_explains_is_a_cancel(paths: RunPaths, seen: Seen) -> None:
    """As by `scancel` of the step."""
    leave_records(paths)
    assert seen(explained_end(GONE, row("RUNNING"), NOW, NOW)).state == RunState.CANCELLED


def test_slurm_is_asked_once_for_all_runs_whose_srun_is_gone(paths: RunPaths, tmp_path: Path) -> None:
    slurm = FakeSlurm(tmp_path / "slurm")
    ended = int(os.stat(paths.batch_log).st_mtime)
    slurm.job("7", "NODE_FAIL", reason="NodeDown", endtime=ended, name="interactive")
    handle = handle_of(paths)
    compute = compute_of_run(paths.root, handle, "slurm", slurm.environ)
    observed = compute.observe([handle, {**handle, "run_dir": str(tmp_path)}])
    assert [each.phase for each in observed] == ["absent", "absent"]
    assert [each.reason for each in observed] == [Reason.NODE_FAILURE, None], "the second one has no last words"
    assert len(slurm.calls()) == 1
