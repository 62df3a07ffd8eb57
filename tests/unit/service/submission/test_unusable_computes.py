"""Runs whose compute cannot be used here, since another package is not installed: their own files tell of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.common.atomic_files import write_json, write_text
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.summaries import live_summaries
from worldsize.state.records import ExitRecord, Failure, RankExit
from worldsize.store.runs import create_run


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """Of a type that nobody knows, on its way."""
    paths = create_run(str(tmp_path), now=lambda: 1795257118.0)
    plan = Plan(paths.run_id, "t", "lab", 1.0, 0, node_major_layout(1, 1), ("true",), {})
    write_text(paths.plan, plan.to_json())
    write_json(paths.handle, {"type": "gone", "job": 3, "run_id": paths.run_id})
    write_json(paths.record, {})
    for each in (paths.events_dir, paths.exit_dir):
        os.makedirs(each, exist_ok=True)
    return paths


def state(paths: RunPaths) -> tuple[str, str | None]:
    (summary,) = live_summaries([paths], dict(os.environ))
    return summary.state, summary.reason


def test_one_that_goes_on_is_not_lost_however_long_it_is_silent(run: RunPaths) -> None:
    assert state(run) == ("STARTING", None)
    for directory, _, names in os.walk(run.root):
        for name in (*names, "."):
            os.utime(os.path.join(directory, name), (1.0, 1.0))
    assert state(run) == ("STARTING", None)
    assert not os.path.exists(run.result)


def test_one_whose_nodes_have_ended_has_ended(run: RunPaths) -> None:
    record = ExitRecord(0, "vm", 0, 1.0, 2.0, (RankExit(0, 3, 1.0, 2.0),), None, Failure("EXIT_CODE", "3", 0, 0, 3), 3)
    write_json(run.exit_record(0), record.to_json())
    assert state(run) == ("FAILED", "EXIT_CODE")
