"""Measurements of a run's agents, as its status shows them: its progress, whether it hangs, and how well it used its
resources.

The wing is loaded only for runs that may have measurements.
"""

from __future__ import annotations

from worldsize.common.named_tuple import Any
from worldsize.service.providers import find_provider
from worldsize.service.runs.run import Run
from worldsize.state.hang import ALIVE_STATES, Hang, read_hang, with_texts
from worldsize.state.records import RunState, Status


def efficiency_lines(run: Run, status: Status) -> list[str]:
    """Return at most two lines of text about the efficiency of an ended run, which are shown below the report of its
    end; none if the run was not measured."""
    metrics = find_provider("metrics") if run.is_measured(status) else None
    return list(metrics.efficiency_lines(run, status)) if metrics else []


def efficiency_data(run: Run, status: Status) -> dict[str, Any] | None:
    """Return the efficiency of an ended run as a JSON-like mapping, from the metrics wing; None if the run was not
    measured."""
    metrics = find_provider("metrics") if run.is_measured(status) else None
    data: dict[str, Any] | None = metrics.efficiency_data(run, status) if metrics else None
    return data


def progress_text(run: Run, status: Status) -> str:
    """Return the latest metric values that a running run has logged, as one text; "" if there are none, or the run is
    not running."""
    is_sampled = status.state == RunState.RUNNING and run.has_plan() and run.plan.metrics
    metrics = find_provider("metrics") if is_sampled else None
    return str(metrics.progress_text(run.paths)) if metrics else ""


def present_hang(run: Run, status: Status) -> Hang | None:
    """Return the hang of a run that hangs now, with secrets masked; None for a run that makes progress, or has
    ended."""
    if status.state not in ALIVE_STATES or not run.has_plan():
        return None
    hang = read_hang(run.paths, run.plan.world_size)
    if hang is None or hang.resumed is not None:
        return None
    from worldsize.service.runs.masks import text_masker  # few runs need this module

    return with_texts(hang, text_masker(run.paths, run.plan))
