"""Looking at many runs: each scheduler is asked once, for all of its own."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.compute.base import Handle
from worldsize.errors import WorldsizeError
from worldsize.plan.shape import DAMAGES
from worldsize.service.gather import damaged
from worldsize.service.run import Run
from worldsize.state.records import Observation, Status


def look_at(runs: Sequence[Run]) -> list[Status]:
    """The status of each. A compute that cannot be asked leaves its runs as their directories tell them."""
    groups: dict[tuple[str, ...], list[tuple[Run, Handle]]] = {}
    for run in runs:
        handle = _handle(run)
        if handle is not None:
            groups.setdefault(_asked(run, handle), []).append((run, handle))
    seen: dict[str, Observation] = {}
    for group in groups.values():
        if len(group) > 1:
            seen.update(_observe(group))
    return [_look(run, seen.get(run.id)) for run in runs]


def _look(run: Run, seen: Observation | None) -> Status:
    """What is wrong with one run is said in its place, and hides no other."""
    try:
        return run.look(seen)
    except WorldsizeError as error:
        return damaged(run.paths, error)


def _asked(run: Run, handle: Handle) -> tuple[str, ...]:
    """Who is asked for the run: another head node, or account, knows nothing of it. For somebody else's run nobody may
    be who wants a password."""
    return handle["type"], str(run.is_own), *(str(handle.get(key)) for key in ("url", "user", "as_user"))


def _handle(run: Run) -> Handle | None:
    """None where there is none, or none that can be used: `look` says so."""
    try:
        handle = run.native()
        return handle if handle is not None and run.has_plan() and isinstance(handle["type"], str) else None
    except (WorldsizeError, OSError, *DAMAGES):
        return None


def _observe(group: Sequence[tuple[Run, Handle]]) -> dict[str, Observation]:
    try:
        found = group[0][0].compute.observe([handle for _, handle in group])
    except (WorldsizeError, *DAMAGES):
        return {}  # one by one, then: each says what is wrong with it
    return {run.id: observation for (run, _), observation in zip(group, found, strict=True)}
