"""What a run's agents have measured, as its status shows it: how far it is, whether it stands still, how well it used
what it held.

The wing is loaded for runs alone of which it may have something to say.
"""

from __future__ import annotations

from worldsize.common.named_tuple import Any
from worldsize.service.providers import find_provider
from worldsize.service.runs.run import Run
from worldsize.state.hang import ALIVE_STATES, Hang, read_hang, with_texts
from worldsize.state.records import RunState, Status


def efficiency_lines(run: Run, status: Status) -> list[str]:
    """At most two lines below the end of a run; none where there is nothing to say."""
    metrics = find_provider("metrics") if run.is_measured(status) else None
    return list(metrics.efficiency_lines(run, status)) if metrics else []


def efficiency_data(run: Run, status: Status) -> dict[str, Any] | None:
    """Return the same as data; None where there is nothing to say."""
    metrics = find_provider("metrics") if run.is_measured(status) else None
    data: dict[str, Any] | None = metrics.efficiency_data(run, status) if metrics else None
    return data


def progress_text(run: Run, status: Status) -> str:
    """Return the latest values that the run has logged, while it is running; "" without any."""
    is_sampled = status.state == RunState.RUNNING and run.has_plan() and run.plan.metrics
    metrics = find_provider("metrics") if is_sampled else None
    return str(metrics.progress_text(run.paths)) if metrics else ""


def present_hang(run: Run, status: Status) -> Hang | None:
    """Return the hang in which the run stands now, with secrets masked; None for a run that goes on, or has ended."""
    if status.state not in ALIVE_STATES or not run.has_plan():
        return None
    hang = read_hang(run.paths, run.plan.world_size)
    if hang is None or hang.resumed is not None:
        return None
    from worldsize.service.runs.masks import text_masker  # few runs need it

    return with_texts(hang, text_masker(run.paths, run.plan))
