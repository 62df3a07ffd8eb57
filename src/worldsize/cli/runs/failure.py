"""The failure screen on a terminal."""

from __future__ import annotations

from worldsize.cli.output import lines_of
from worldsize.service.runs import failure_screen
from worldsize.service.runs.run import Run
from worldsize.state.records import RunState, Status
from worldsize.state.run_state import CANCELLED_MESSAGE


def failure_lines(run: Run, status: Status) -> list[str]:
    """The screen under the headline; the status's own message where no rank failed."""
    if status.message == CANCELLED_MESSAGE and (status.state == RunState.LOST or status.failure is None):
        return []
    data = None if status.state == RunState.LOST else failure_screen.failure_data(run.paths, run.plan, status)
    if data is not None:
        return failure_screen.failure_lines(run.paths, run.id, data)
    return lines_of(status.message) if status.message else []
