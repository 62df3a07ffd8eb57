"""A run that is final by its nodes' records while its compute says that it runs: whether its native job is ended."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, cast

import pytest

from worldsize.common.atomic_files import write_json
from worldsize.compute.base import Compute, Handle
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.status import fold_observation, read_native_handle
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


def judged(paths: RunPaths, reason: str, phase: str = "running", age: float = 100.0) -> tuple[str, list[Handle]]:
    """The state of a run of two nodes whose agents have written records, so long ago, and what was cancelled."""
    plan = Plan(paths.run_id, "t", "slurm", 1.0, 0, node_major_layout(2, 1), ("true",), {}, grace=1.0)
    for node in (0, 1):
        stop = "node-lost" if reason == Reason.NODE_FAILURE else "failure"
        record = ExitRecord(node, "n", 0, 1.0, 2.0, (), stop, Failure(reason, "x", 1, None, 1, 2.0), 1)
        write_json(paths.exit_record(node), record.to_json())
    for place in (paths.root, paths.exit_dir):
        now = os.stat(place).st_mtime
        os.utime(place, (now - age, now - age))
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
