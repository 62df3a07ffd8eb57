"""The record of a check: what was written is read, and a file that holds something else is a damaged one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from worldsize.errors import DamagedRun, NewerFormat
from worldsize.plan.run_paths import RunPaths
from worldsize.state.check_rows import OK, CheckRow
from worldsize.wings.checks.agent.record import CheckRecord, read_check_record, record_path, write_record

ROW = CheckRow("node1", "files.space", "disk", "3 GB free", OK)
RECORD = CheckRecord("full", 1.5, ("node1",), (ROW,))


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    found = RunPaths(str(tmp_path), 1)
    os.makedirs(found.attempt_dir)
    return found


def test_what_was_written_is_read(paths: RunPaths) -> None:
    assert read_check_record(paths) is None
    write_record(paths, RECORD)
    assert read_check_record(paths) == RECORD


@pytest.mark.parametrize(
    "changed",
    [
        {"seconds": float("nan")},
        {"seconds": float("inf")},
        {"seconds": "1e400"},
        {"mode": 5},
        {"hosts": [["a"]]},
        {"hosts": None},
        {"rows": {}, "hosts": [1]},
        {"rows": [{"verdict": []}]},
        {"rows": [{**ROW._asdict(), "value": 1}]},
        {"version": None},
    ],
)
def test_a_file_of_somebody_elses_making_is_a_damaged_record(paths: RunPaths, changed: dict[str, Any]) -> None:
    whole = {**RECORD._asdict(), "rows": [ROW._asdict()], "version": 1}
    Path(record_path(paths)).write_text(json.dumps({**whole, **changed}))
    with pytest.raises(DamagedRun):
        read_check_record(paths)
    Path(record_path(paths)).write_text(json.dumps({**whole, "version": 2}))
    with pytest.raises(NewerFormat):
        read_check_record(paths)
