"""What agents left, as it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from worldsize.common.json_values import PARSE_ERRORS, read_record, require_version, tuple_of
from worldsize.errors import DamagedRun, NewerFormat
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import ranks_start_time, read_events, read_exit, read_hosts
from worldsize.state.records import ExitRecord, Failure, RankExit
from worldsize.state.result import status_of

FAILED = Failure("EXIT_CODE", "wrong", 0, 0, 3, 2.0)
RECORD = ExitRecord(0, "here", 0, 1.0, 2.0, (RankExit(0, 3, 1.0, 2.0),), "failure", FAILED, 3)


def test_events_but_for_the_line_that_is_being_written_and_those_that_a_full_disk_cut(tmp_path: Path) -> None:
    paths = RunPaths(str(tmp_path))
    assert read_events(paths, 0) == []
    Path(paths.events_dir).mkdir(parents=True)
    Path(paths.events(0)).write_text(
        '{"event": "a"}\n{"event": "b", "ti{"event": "c"}\n3\n{"event": "d"}\n{"event": "e"'
    )
    assert [event["event"] for event in read_events(paths, 0)] == ["a", "d"]


def test_the_hosts_that_agents_have_told(tmp_path: Path) -> None:
    """The last one where an agent has begun again; lines that lack something are passed over."""
    paths = RunPaths(str(tmp_path))
    Path(paths.events_dir).mkdir(parents=True)
    begun = '{"event": "agent_started"%s}\n'
    Path(paths.events(0)).write_text(begun % ', "host": "one"' + begun % ', "host": "two"' + begun % "" + "{}\n")
    Path(paths.events(1)).write_text("{}\n")
    assert read_hosts(paths, [0, 1, 2]) == {0: "two"}


def test_an_exit_record_of_a_newer_release(tmp_path: Path) -> None:
    """Found by trying: such a node had left no record, so that its run was LOST."""
    paths = RunPaths(str(tmp_path))
    Path(paths.exit_dir).mkdir(parents=True)
    value = RECORD.to_json()
    value["failure"]["hint"] = value["ranks"][0]["cpu_time"] = value["kernel"] = 1
    Path(paths.exit_record(0)).write_text(json.dumps(value))
    assert read_exit(paths, 0) == RECORD
    Path(paths.exit_record(1)).write_text(json.dumps(value))
    assert read_exit(paths, 1) is None  # it is another node's


@pytest.mark.parametrize("time", ["1e400", "NaN", "null", '"1"', "[1]", "true"])
def test_a_start_at_no_time(tmp_path: Path, time: str) -> None:
    paths = RunPaths(str(tmp_path))
    Path(paths.events_dir).mkdir(parents=True)
    Path(paths.events(0)).write_text('{"event":"ranks_started","time":%s}\n' % time)
    assert ranks_start_time(paths) is None


@pytest.mark.parametrize(
    ("state", "code", "whole"),
    [
        *[("SUCCEEDED", 0, True), ("FAILED", 3, True), ("LOST", 1, True), ("CANCELLED", 130, True)],
        *[("SUCCEEDED", 1, False), ("FAILED", 0, False), ("FAILED", None, False), ("FAILED", 256, False)],
        *[("FAILED", -1, False), ("FAILED", True, False), ("RUNNING", 1, False), ("DONE", 1, False)],
    ],
)
def test_only_a_success_has_the_code_0(state: str, code: Any, whole: bool) -> None:
    """Found by trying: `wait` took a run that FAILED, with the code that a damaged file said, for a success."""
    row = {"state": state, "reason": None, "exit_code": code, "started": None, "ended": 1.0, "more": 1}
    value = {"summary": row, "message": "", "failure": {**FAILED._asdict(), "more": 1}, "more": 1}
    if whole:
        assert (status_of(value).state, status_of(value).failure) == (state, FAILED)
    else:
        with pytest.raises(ValueError):
            status_of(value)


@pytest.mark.parametrize("name", ["state", "reason", "exit_code"])
def test_a_result_that_lacks_a_value_is_none(name: str) -> None:
    row = {"state": "FAILED", "reason": "EXIT_CODE", "exit_code": 3}
    value = {"summary": row, "message": "", "failure": None}
    assert status_of(value)[:3] == ("FAILED", "EXIT_CODE", 3)
    del row[name]
    with pytest.raises(PARSE_ERRORS):
        status_of(value)


def test_a_record_is_read_or_its_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    assert read_record(str(path), dict) is None
    path.write_text('{"a": 1}')
    assert read_record(str(path), dict) == {"a": 1}
    with pytest.raises(DamagedRun, match="lacks 'b'") as told:
        read_record(str(path), lambda value: value["b"])
    assert told.value.where == str(path) and "worldsize rm" in (told.value.hint or "")
    path.unlink()
    path.mkdir()
    with pytest.raises(DamagedRun, match="directory"):
        read_record(str(path), dict)


def test_what_a_release_adds_is_left_out_and_what_is_missing_is_said() -> None:
    assert tuple_of(RankExit, [0, 3, 1.0, 2.0, False, "new"]) == tuple_of(
        RankExit, RECORD.ranks[0]._asdict() | {"new": 1}
    )
    for value in ({"rank": 1}, [1, 2], 3, "four"):
        with pytest.raises((TypeError, ValueError)):
            tuple_of(RankExit, value)


@pytest.mark.parametrize("version", [2, 10**30])
def test_a_higher_version_is_of_a_newer_worldsize(version: int) -> None:
    with pytest.raises(NewerFormat, match="newer worldsize"):
        require_version({"version": version}, 1, "plan")


@pytest.mark.parametrize("value", [{}, {"version": 0}, {"version": "2"}, {"version": True}, {"version": 1.0}, [], None])
def test_what_is_of_no_version_is_none(value: Any) -> None:
    with pytest.raises(ValueError, match="version") as told:
        require_version(value, 1, "plan")
    assert not isinstance(told.value, NewerFormat)
