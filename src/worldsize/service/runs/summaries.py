"""Summaries for `list`: of runs and arrays that have no result yet, and of the elements of arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

from worldsize.errors import WorldsizeError
from worldsize.plan.array import element_id
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.open import open_runs
from worldsize.service.runs.run import Run
from worldsize.service.runs.status import damaged_status
from worldsize.state.records import Status
from worldsize.state.result import summary_of
from worldsize.store.summaries import Summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.service.runs.array import RunArray


def live_summaries(all_paths: Sequence[RunPaths], environ: Mapping[str, str]) -> list[Summary]:
    """The summary of each run and array, from one query of each compute. A damaged one hides no other."""
    from worldsize.service.runs.compute_reports import refresh_statuses

    found = [open_runs(paths, environ) for paths in all_paths]
    runs = [each for each in found if isinstance(each, Run)]
    looked = {id(run): [status] for run, status in zip(runs, refresh_statuses(runs), strict=True)}
    return [_summary(each, looked.get(id(each))) for each in found]


def _summary(runs: Run | RunArray, statuses: Sequence[Status] | None) -> Summary:
    try:
        if statuses and not runs.has_plan():
            return _bare_summary(runs.paths, statuses[0])
        return Summary(**{**runs.summary(statuses), "id": runs.id})
    except (WorldsizeError, OSError) as error:
        return _bare_summary(runs.paths, damaged_status(runs.paths, error))


def _bare_summary(paths: RunPaths, now: Status) -> Summary:
    """The summary of a run of which only the state is known."""
    try:
        created = os.stat(paths.root).st_mtime
    except OSError:
        created = 0.0
    return Summary(paths.run_id, "", now.state, now.reason, "", 0, 0, created, exit_code=now.exit_code)


def with_element_summaries(summaries: Sequence[Summary], home: str, environ: Mapping[str, str]) -> Iterator[Summary]:
    """The summaries, with those of its elements in place of each array's."""
    from worldsize.store.find import run_paths

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
    """The summary of each element of an array; the one of a run."""
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
