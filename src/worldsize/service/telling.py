"""What the compute of a run can add to its status: why it waits, and what it used."""

from __future__ import annotations

from worldsize.compute.abilities import CanExplain, HasUsage, Usage, Waiting
from worldsize.errors import Damaged, WorldsizeError
from worldsize.plan.array import array_of
from worldsize.plan.files import read_file
from worldsize.plan.paths import RunPaths
from worldsize.plan.values import cast
from worldsize.service.run import Run
from worldsize.state.records import RunState, Status


def waiting(run: Run, status: Status, seconds: float) -> Waiting | None:
    """Why a queued run waits, found out in about `seconds`; None for others, and where nobody can tell now."""
    handle = run.native() if status.state == RunState.QUEUED else None
    if handle is None or "explain" not in run.compute.capabilities:
        return None
    try:
        secrets = run.plan.secrets if run.has_plan() else ()
        script = _submitted(run.paths) if run.is_own else ""
        return cast(CanExplain, run.compute).explain(handle, script, seconds, secrets)
    except WorldsizeError:
        return None


def usage(run: Run, status: Status, patience: float) -> Usage | None:
    """What a run that has ended used; `patience` is for what accounting has not noted yet."""
    try:
        handle = run.native() if status.final and run.has_plan() else None
    except Damaged:
        return None
    if handle is None or "usage" not in run.compute.capabilities:
        return None
    return cast(HasUsage, run.compute).usage([handle], patience)[0]


def _submitted(paths: RunPaths) -> str:
    """An element's submission is its array's."""
    place = array_of(paths)
    try:
        return read_file(RunPaths(place[0]).submission if place else paths.submission).decode("utf-8")
    except (OSError, ValueError):
        return ""
