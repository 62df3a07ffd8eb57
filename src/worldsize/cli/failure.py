"""The failure screen on a terminal."""

from __future__ import annotations

from worldsize.cli.shared import clean
from worldsize.service.run import Run
from worldsize.service.screen import failure_data, failure_lines
from worldsize.state.records import RunState, Status
from worldsize.state.status import CANCELLED_WORDS


def failure_text(run: Run, status: Status) -> str:
    """The screen under the headline; the status's own message where no rank failed."""
    if status.state == RunState.LOST or status.failure is None:
        return clean(status.message) if status.message != CANCELLED_WORDS else ""
    data = failure_data(run.paths, run.plan, status)
    return clean("\n".join(failure_lines(run.paths, run.id, data)) if data else status.message)
