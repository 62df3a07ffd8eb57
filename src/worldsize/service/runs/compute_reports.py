"""Reports of computes about runs: why a run waits; the states of many runs, for which each scheduler is asked once."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.atomic_files import read_file
from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import cast
from worldsize.compute.base import Handle
from worldsize.compute.capabilities import CanExplain, WaitExplanation
from worldsize.errors import ConfigError, WorldsizeError
from worldsize.plan.array import array_of
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run
from worldsize.service.runs.status import damaged_status, unasked_status
from worldsize.state.records import Observation, RunState, Status


def wait_explanation(run: Run, status: Status, seconds: float) -> WaitExplanation | None:
    """Why a queued run waits, found out in about `seconds`; None for others, and where nobody can tell now."""
    handle = run.native() if status.state == RunState.QUEUED else None
    if handle is None or "explain" not in run.compute.capabilities:
        return None
    try:
        secrets = run.plan.secrets if run.has_plan() else ()
        script = _submission_text(run.paths) if run.is_own else ""
        return cast(CanExplain, run.compute).explain(handle, script, seconds, secrets)
    except WorldsizeError:
        return None


def _submission_text(paths: RunPaths) -> str:
    """An element's submission is its array's."""
    place = array_of(paths)
    try:
        return read_file(RunPaths(place[0]).submission if place else paths.submission).decode("utf-8")
    except (OSError, ValueError):
        return ""


def refresh_statuses(runs: Sequence[Run]) -> list[Status]:
    """The status of each. A compute that cannot be asked leaves its runs as their directories tell them."""
    groups: dict[tuple[str, ...], list[tuple[Run, Handle]]] = {}
    for run in runs:
        handle = _handle(run)
        if handle is not None:
            groups.setdefault(_scheduler_key(run, handle), []).append((run, handle))
    seen: dict[str, Observation] = {}
    for group in groups.values():
        if len(group) > 1:
            seen.update(_observe(group))
    return [_refresh_status(run, seen.get(run.id)) for run in runs]


def _refresh_status(run: Run, seen: Observation | None) -> Status:
    """What is wrong with one run is said in its place, and hides no other."""
    try:
        try:
            return run.look(seen)
        except ConfigError as error:  # its compute cannot be used here, which damages no run
            return unasked_status(run.paths, run.plan, error.what)
    except (WorldsizeError, OSError, *PARSE_ERRORS) as error:
        return damaged_status(run.paths, error)


def _scheduler_key(run: Run, handle: Handle) -> tuple[str, ...]:
    """Who is asked for the run: another head node, or account, knows nothing of it. For somebody else's run nobody may
    be who wants a password."""
    return handle["type"], str(run.is_own), *(str(handle.get(key)) for key in ("url", "user", "as_user"))


def _handle(run: Run) -> Handle | None:
    """None where there is none, or none that can be used: `Run.look` says so."""
    try:
        handle = run.native()
        return handle if handle is not None and run.has_plan() and isinstance(handle["type"], str) else None
    except (WorldsizeError, OSError, *PARSE_ERRORS):
        return None


def _observe(group: Sequence[tuple[Run, Handle]]) -> dict[str, Observation]:
    try:
        found = group[0][0].compute.observe([handle for _, handle in group])
    except (WorldsizeError, *PARSE_ERRORS):
        return {}  # one by one, then: each says what is wrong with it
    return {run.id: observation for (run, _), observation in zip(group, found, strict=True)}
