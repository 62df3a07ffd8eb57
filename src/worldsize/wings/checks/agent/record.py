"""The file `attempt-N/check.json`: the result of a check of an attempt's nodes. The head writes it before any rank
starts.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.atomic_files import write_json
from worldsize.common.json_values import check_fields, read_record, require_version
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.plan.run_paths import RunPaths
from worldsize.state.check_rows import CheckRow, row_of

RECORD_VERSION = 1


class CheckRecord(NamedTuple):
    """The result of a node check of one attempt.

    mode     "cheap" or "full"
    seconds  the time from the start of the check on the head to its last verdict
    hosts    the labels of the nodes, in the order of their ranks
    rows     the rows, in the order of the checks
    """

    mode: str
    seconds: float
    hosts: tuple[str, ...]
    rows: tuple[CheckRow, ...]


def record_path(paths: RunPaths) -> str:
    """Return the path of the node check's record `check.json` in the attempt's directory."""
    return f"{paths.attempt_dir}/check.json"


def write_record(paths: RunPaths, record: CheckRecord) -> None:
    """Write the result of a node check as JSON to the attempt's file `check.json`. Raise OSError."""
    value = record._asdict()
    value["version"] = RECORD_VERSION
    value["rows"] = [row._asdict() for row in record.rows]
    write_json(record_path(paths), value)


def read_check_record(paths: RunPaths) -> CheckRecord | None:
    """Read the result of the attempt's node check from its file `check.json`; None if there is no readable one."""
    return read_record(record_path(paths), _record_of)


def _record_of(value: Any) -> CheckRecord:
    require_version(value, RECORD_VERSION, "check")
    rows = tuple(map(row_of, value["rows"]))
    return check_fields(CheckRecord(value["mode"], value["seconds"], tuple(value["hosts"]), rows))
