"""Summaries for `list`: of runs and arrays that have no result yet, with one query of each scheduler, and of the
elements of arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from worldsize.common.json_values import PARSE_ERRORS
from worldsize.compute.base import Handle
from worldsize.errors import ConfigError, WorldsizeError
from worldsize.plan.array import element_id
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.open import open_runs
from worldsize.service.runs.run import Run
from worldsize.service.runs.status import damaged_status, unasked_status
from worldsize.state.records import Observation, Status
from worldsize.state.summary import summary_of
from worldsize.store.find import run_paths
from worldsize.store.summaries import Summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.service.runs.array import RunArray


def live_summaries(all_paths: Sequence[RunPaths], environ: Mapping[str, str]) -> list[Summary]:
    """Return the Summary of each run and array in `all_paths`, in order, as `worldsize list` shows them, from one query
    of each compute. A damaged run gets a summary of its own damage, and does not hide other runs."""
    found = [open_runs(paths, environ) for paths in all_paths]
    runs = [each for each in found if isinstance(each, Run)]
    looked = {id(run): [status] for run, status in zip(runs, _statuses(runs), strict=True)}
    return [_summary(each, looked.get(id(each))) for each in found]


def _statuses(runs: Sequence[Run]) -> list[Status]:
    """Return the status of each run, in order, from one query of each scheduler that has several of them. If a compute
    cannot be queried, the status of its runs is read from their directories."""
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
    """Return the status of one run now, from the observation `seen` if the compute has already made one. An error of
    the run is reported in its own status, and does not hide other runs."""
    try:
        try:
            return run.look(seen)
        except ConfigError as error:  # its compute cannot be used here, but the run is not damaged
            return unasked_status(run.paths, run.plan, error.what)
    except (WorldsizeError, OSError, *PARSE_ERRORS) as error:
        return damaged_status(run.paths, error)


def _scheduler_key(run: Run, handle: Handle) -> tuple[str, ...]:
    """Return the key (type, ownership, url, user) by which runs are grouped, so that each scheduler is queried once.
    Another head node or account does not know the run. Another user's run has a separate key, since no scheduler that
    requires a password may be queried for it."""
    return handle["type"], str(run.is_own), *(str(handle.get(key)) for key in ("url", "user", "as_user"))


def _handle(run: Run) -> Handle | None:
    """Return the handle (native id at the compute) of the run; None if there is none, or it cannot be used. `Run.look`
    reports the error."""
    try:
        handle = run.native()
        return handle if handle is not None and run.has_plan() and isinstance(handle["type"], str) else None
    except (WorldsizeError, OSError, *PARSE_ERRORS):
        return None


def _observe(group: Sequence[tuple[Run, Handle]]) -> dict[str, Observation]:
    """Return the compute's observations of a group of runs of one scheduler, by run id. The mapping is empty if the
    scheduler cannot be queried for all of them together."""
    try:
        found = group[0][0].compute.observe([handle for _, handle in group])
    except (WorldsizeError, *PARSE_ERRORS):
        return {}  # they are then queried one by one, and each reports its own error
    return {run.id: observation for (run, _), observation in zip(group, found, strict=True)}


def _summary(runs: Run | RunArray, statuses: Sequence[Status] | None) -> Summary:
    try:
        if statuses and not runs.has_plan():
            return _bare_summary(runs.paths, statuses[0])
        return Summary(**{**runs.summary(statuses), "id": runs.id})
    except (WorldsizeError, OSError) as error:
        return _bare_summary(runs.paths, damaged_status(runs.paths, error))


def _bare_summary(paths: RunPaths, now: Status) -> Summary:
    """Return the Summary of a run of which only the id, the state and the age of its directory are known."""
    try:
        created = os.stat(paths.root).st_mtime
    except OSError:
        created = 0.0
    return Summary(paths.run_id, "", now.state, now.reason, "", 0, 0, created, exit_code=now.exit_code)


def with_element_summaries(summaries: Sequence[Summary], home: str, environ: Mapping[str, str]) -> Iterator[Summary]:
    """Yield the `summaries` of runs unchanged, and in place of the summary of each array the summaries of its
    elements."""
    for each in summaries:
        if not each.states:
            yield each
            continue
        paths = run_paths(home, each.id)
        try:
            yield from element_summaries(open_runs(paths, environ))
        except (WorldsizeError, OSError) as error:
            yield _bare_summary(paths, damaged_status(paths, error))


def element_summaries(runs: Run | RunArray) -> list[Summary]:
    """Return the Summary of each element of an array, in order, or the one Summary of a run in a list."""
    if isinstance(runs, Run):
        return live_summaries([runs.paths], runs.environ)
    return [
        Summary(
            **{**summary_of(runs.array, runs.size, status), "id": element_id(runs.id, number)},
            array=runs.id,
            inputs=dict(runs.values(number)),
        )
        for number, status in enumerate(runs.statuses())
    ]
