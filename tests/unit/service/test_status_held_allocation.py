"""A run whose nodes have all left records while its compute says that it runs: whether that is its end already, and
whether its native job is ended."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import pytest

from worldsize.common.atomic_files import write_json
from worldsize.compute.base import Compute, Handle
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.status import fold_observation, read_native_handle, status_from_records
from worldsize.state.records import ExitRecord, Failure, Observation, Reason
from worldsize.store.runs import create_run


class Asked:
    """A compute of which only one thing may be asked; `cancelled` has the handles."""

    def __init__(self) -> None:
        self.cancelled: list[Handle] = []

    def cancel(self, handles: Sequence[Handle], now: bool = False) -> None:
        self.cancelled += handles


@pytest.fixture
def paths(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path))
    paths = create_run(str(tmp_path))
    for directory in paths.directories():
        os.makedirs(directory, exist_ok=True)
    write_json(paths.record, {})
    write_json(paths.handle, {"type": "slurm", "job": "7", "run_id": paths.run_id, "signal": None, "python": "python3"})
    return paths


def plan_of(paths: RunPaths) -> Plan:
    return Plan(paths.run_id, "t", "slurm", 1.0, 0, node_major_layout(2, 1), ("true",), {}, grace=1.0)


def leave_records(paths: RunPaths, stop: str, failure: Failure | None, age: float) -> None:
    """Those of both nodes' agents, so long ago."""
    for node in (0, 1):
        record = ExitRecord(node, "n", 0, 1.0, 2.0, (), stop, failure, failure.code if failure else 143)
        write_json(paths.exit_record(node), record.to_json())
    for place in (paths.root, paths.exit_dir):
        now = os.stat(place).st_mtime
        os.utime(place, (now - age, now - age))


def judged(paths: RunPaths, reason: str, phase: str = "running", age: float = 100.0) -> tuple[str, list[Handle]]:
    """The state of a run of two nodes whose agents have written records, so long ago, and what was cancelled."""
    plan = plan_of(paths)
    stop = "node-lost" if reason == Reason.NODE_FAILURE else "failure"
    leave_records(paths, stop, Failure(reason, "x", 1, None, 1, 2.0), age)
    compute = Asked()
    status = fold_observation(paths, cast(Compute, compute), plan, read_native_handle(paths), Observation(phase))
    return status.state, compute.cancelled


def test_of_a_run_that_was_given_up_for_a_lost_node_nothing_is_held(paths: RunPaths) -> None:
    """srun waits for the lost node's task, for ever where it has missed its end."""
    state, cancelled = judged(paths, Reason.NODE_FAILURE)
    assert state == "FAILED" and [handle["job"] for handle in cancelled] == ["7"]


@pytest.mark.parametrize(
    ("reason", "phase", "age", "state"),
    [
        (Reason.NODE_FAILURE, "running", 0.0, "STOPPING"),
        (Reason.NODE_FAILURE, "ended", 100.0, "FAILED"),
        (Reason.EXIT_CODE, "running", 100.0, "FAILED"),
    ],
)
def test_what_ends_by_itself_is_left_alone(paths: RunPaths, reason: str, phase: str, age: float, state: str) -> None:
    assert judged(paths, reason, phase, age) == (state, [])


def test_agents_that_were_told_to_end_are_explained_by_who_told_them_however_late(paths: RunPaths) -> None:
    """A failed node's job is completing until its other nodes answer, or an epilog is done: minutes."""
    leave_records(paths, "cancel", None, 100.0)
    plan, handle, compute = plan_of(paths), read_native_handle(paths), cast(Compute, Asked())
    assert status_from_records(paths, plan, handle) is None
    ended = Observation("ended", Reason.NODE_FAILURE, 1, "Slurm: one of n[1-2] failed (NODE_FAIL)")
    for seen, state in ((Observation("running", ending=True), "STOPPING"), (ended, "FAILED")):
        assert not os.path.exists(paths.result)
        status = fold_observation(paths, compute, plan, handle, seen)
        assert status.state == state
    assert (status.reason, status.message) == (Reason.NODE_FAILURE, ended.message)
