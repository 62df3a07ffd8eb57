"""Looking at a run while it is being put back into its queue: what has ended is the attempt before."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from worldsize.compute.local.compute import LocalCompute
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.status import fold_observation
from worldsize.state.records import Observation, RunState
from worldsize.store.runs import create_run

ENDED = Observation("ended", None, 1, "the job failed", over=True)


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    """Of the second attempt, which has been made and not begun."""
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path / "home"))
    made = RunPaths(create_run(str(tmp_path / "home")).root, 1)
    os.makedirs(made.events_dir)
    return made


def state(paths: RunPaths, observation: Observation) -> str:
    plan = Plan(paths.run_id, "t", "lab", time.time(), 0, node_major_layout(1, 1), ("true",), {})
    return fold_observation(paths, LocalCompute("lab", {}), plan, {"type": "lab"}, observation).state


def test_the_end_of_the_attempt_before_settles_nothing(paths: RunPaths) -> None:
    assert state(paths, ENDED) == RunState.QUEUED
    assert not os.path.exists(paths.result)


def test_its_own_end_does(paths: RunPaths) -> None:
    assert state(paths, ENDED._replace(restarts=1)) == RunState.FAILED
    assert os.path.exists(paths.result)


def test_an_attempt_that_never_came_is_not_waited_for_for_ever(paths: RunPaths) -> None:
    long_ago = time.time() - 100
    os.utime(paths.attempt_dir, (long_ago, long_ago))
    assert state(paths, ENDED) == RunState.FAILED
