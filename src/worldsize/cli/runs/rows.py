"""The rows of `list`: of runs, of arrays, of the elements of arrays."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from worldsize.errors import WorldsizeError
from worldsize.plan.array import element_id
from worldsize.service.runs.run import Run
from worldsize.state.records import Status
from worldsize.store.summaries import Summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.service.runs.array import RunArray


def live_summaries(all_paths: list[Any]) -> list[Any]:
    """The rows of runs, and arrays, that have no result yet."""
    from worldsize.service.runs.compute_reports import refresh_statuses
    from worldsize.store.find import is_array

    runs = {paths.root: Run(paths, os.environ) for paths in all_paths if not is_array(paths)}
    looked = dict(zip(runs, refresh_statuses(list(runs.values())), strict=True))
    return [
        _live_row(runs[paths.root], looked[paths.root]) if paths.root in runs else _array_row(paths)
        for paths in all_paths
    ]


def _array_row(paths: Any) -> Any:
    from worldsize.service.runs.array import RunArray

    try:
        return Summary(**{**RunArray(paths, os.environ).summary(), "id": paths.run_id})
    except (WorldsizeError, OSError) as error:  # the other rows are none the worse for it
        return damaged_row(paths, error)


def damaged_row(paths: Any, error: Exception) -> Any:
    """The row of a run, or an array, of which nothing is known but that."""
    from worldsize.service.runs.status import damaged_status

    now = damaged_status(paths, error)
    return Summary(
        paths.run_id, "", now.state, now.reason, "", 0, 0, _creation_time(paths.root), exit_code=now.exit_code
    )


def _live_row(run: Run, now: Status) -> Any:
    if run.has_plan():
        from worldsize.state.result import summary

        return Summary(**{**summary(run.plan, now), "id": run.id})
    return Summary(run.id, "", now.state, now.reason, "", 0, 0, _creation_time(run.directory), exit_code=now.exit_code)


def _creation_time(directory: str) -> float:
    try:
        return os.stat(directory).st_mtime
    except OSError:
        return 0.0


def with_elements(rows: Sequence[Summary], home: str) -> Iterator[Summary]:
    """The rows of a list, with an array's elements in its place."""
    from worldsize.service.runs.array import RunArray
    from worldsize.store.find import run_paths

    for row in rows:
        if not row.states:
            yield row
            continue
        paths = run_paths(home, row.id)
        try:
            yield from element_rows(RunArray(paths, os.environ))
        except (WorldsizeError, OSError) as error:
            yield damaged_row(paths, error)


def element_rows(array: RunArray) -> list[Summary]:
    """One row for each element."""
    common = array.array
    return [
        Summary(
            id=element_id(array.id, number),
            name=common.name,
            state=status.state,
            reason=status.reason,
            compute=common.compute,
            nodes=common.nodes,
            ranks=common.ranks,
            created=common.created,
            started=status.started,
            ended=status.ended,
            exit_code=status.exit_code,
            array=array.id,
            inputs=dict(array.values(number)),
        )
        for number, status in enumerate(array.statuses())
    ]
