"""The contents of result.json: a run's final state with everything that a list of runs shows, so that each row costs
one small file.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.json_values import check_fields, tuple_of
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import Plan
from worldsize.state.records import RunState, Status
from worldsize.state.summary import run_summary


def result(plan: Plan, status: Status) -> dict[str, Any]:
    return {
        "summary": run_summary(plan, status),
        "message": status.message,
        "failure": status.failure._asdict() if status.failure else None,
        "warnings": [warning._asdict() for warning in status.warnings],
    }


def is_code_of(state: str, code: int | None) -> bool:
    """Return whether a run that ended in `state` can have the exit `code`: 0 if it succeeded, any other code from 1 to
    255 otherwise."""
    return code is not None and 0 <= code < 256 and (code == 0) == (state == RunState.SUCCEEDED)


def status_of(value: dict[str, Any]) -> Status:
    """Return the Status of an ended run that `value`, the content of its result.json, describes. Raise ValueError,
    KeyError or TypeError for a damaged one, and for one without a final state, for which clients would wait forever.
    """
    row = value["summary"]
    needed = {"reason": row["reason"], "message": value["message"], "failure": value["failure"]}
    status = check_fields(tuple_of(Status, {**row, **needed, "warnings": value.get("warnings", ())}))
    if not status.final:
        raise ValueError(f"{status.state!r} is not an end of a run")
    if not is_code_of(status.state, status.exit_code):
        raise ValueError(f"{status.state} with the exit code {status.exit_code!r} is not an end of a run")
    return status
