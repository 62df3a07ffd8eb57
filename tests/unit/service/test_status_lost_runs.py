"""When a run counts as LOST: by the clock that dates its files, and not for ever."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from worldsize.common.atomic_files import file_server_time, write_json
from worldsize.compute.local.compute import LocalCompute
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs import status
from worldsize.service.runs.status import fold_observation, refresh_status
from worldsize.state.records import ExitRecord, Failure, Observation, RunState, Status
from worldsize.store.runs import create_run

NODES = 2
ENDED = Observation("ended", None, 0)


@pytest.fixture
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    """Of a run that was given to a compute."""
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path / "home"))
    paths = create_run(str(tmp_path / "home"))
    for name in (paths.record, paths.handle):
        write_json(name, {"type": "local", "pid": 1, "started": 1, "run_id": paths.run_id})
    return paths


def plan(paths: RunPaths) -> Plan:
    return Plan(paths.run_id, "t", "local", time.time(), 0, node_major_layout(NODES, 1), ("true",), {}, grace=1.0)


def seen(paths: RunPaths, observation: Observation) -> Status:
    handle = {"type": "local", "pid": 1, "started": 1, "run_id": paths.run_id}
    return fold_observation(paths, LocalCompute("local", {}), plan(paths), handle, observation, remains=False)


def leave_records(paths: RunPaths, nodes: Sequence[int], failure: Failure | None = None) -> None:
    code = failure.code if failure else 0
    for node in nodes:
        record = ExitRecord(node, "host", 0, 1.0, 2.0, (), "failure" if failure else None, failure, code)
        write_json(paths.exit_record(node), record.to_json())


def date_files(paths: RunPaths, moment: float) -> None:
    for directory in (paths.root, paths.exit_dir):
        os.utime(directory, (moment, moment))


def test_files_are_dated_by_who_keeps_them(tmp_path: Path) -> None:
    before = time.time() - 1
    assert before < file_server_time(str(tmp_path)) < time.time() + 1
    assert os.listdir(tmp_path) == []
    with pytest.raises(OSError):
        file_server_time(str(tmp_path / "gone"))


@pytest.mark.parametrize("skew", [-3600.0, 0.0, 3600.0])
def test_a_file_servers_clock_counts(paths: RunPaths, monkeypatch: pytest.MonkeyPatch, skew: float) -> None:
    """A simulated server dates files by its own clock. A record of a job that ended with 0 may be hidden for 90 s."""
    server = time.time() + skew
    for since, state in ((1.0, RunState.STARTING), (89.0, RunState.STARTING), (91.0, RunState.LOST)):
        monkeypatch.setattr(status, "file_server_time", lambda _, since=since: server + since)
        date_files(paths, server)
        assert seen(paths, ENDED).state == state


def test_a_job_that_failed_has_nothing_more_to_tell(paths: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr(status, "file_server_time", lambda _: now + 7)
    date_files(paths, now)
    assert seen(paths, ENDED._replace(code=1)).state == RunState.FAILED


@pytest.mark.parametrize(
    ("failure", "state"),
    [
        (None, RunState.SUCCEEDED),
        (Failure("EXIT_CODE", "rank 0 failed", 0, 0, 3), RunState.FAILED),
        (Failure("SIGNAL", "rank 0 was killed", 0, 0, 139), RunState.FAILED),
    ],
)
def test_records_that_show_later_count(paths: RunPaths, failure: Failure | None, state: str) -> None:
    assert seen(paths, Observation("absent", over=True)).state == RunState.LOST
    leave_records(paths, [0])
    compute = LocalCompute("local", {})
    assert refresh_status(paths, compute, plan(paths)).state == RunState.LOST
    leave_records(paths, [1], failure)
    assert refresh_status(paths, compute, plan(paths)).state == state
    with open(paths.result) as file:
        assert json.load(file)["summary"]["state"] == state


def test_any_other_end_stays(paths: RunPaths) -> None:
    assert seen(paths, ENDED._replace(code=1, over=True)).state == RunState.FAILED
    leave_records(paths, range(NODES))
    assert refresh_status(paths, LocalCompute("local", {}), plan(paths)).state == RunState.FAILED
