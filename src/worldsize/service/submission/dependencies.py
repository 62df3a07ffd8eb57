"""What a run waits for: `--after RUN`, as a compute needs it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from worldsize.compute.base import RunDependency
from worldsize.errors import UsageError
from worldsize.plan.array import array_file
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.run import Run
from worldsize.service.runs.status import read_native_handle
from worldsize.state.records import RunState, Status


def find_dependencies(
    found: Sequence[RunPaths], environ: Mapping[str, str], any_end: bool = False
) -> tuple[RunDependency, ...]:
    """For each run or array in `found` that has not ended. Those that have ended as they should are waited for by
    nobody. Raises UsageError for one that has not, and for one that no compute has yet."""
    after = [_dependency_on(paths, environ, any_end) for paths in found]
    return tuple(each for each in after if each.roots)


def _dependency_on(paths: RunPaths, environ: Mapping[str, str], any_end: bool) -> RunDependency:
    roots, handles = [], []
    for run, status in _element_statuses(paths, environ):
        if status.final:
            if status.state != RunState.SUCCEEDED and not any_end:
                what = f"{run.run_id} is {status.state}, so this run would never start"
                raise UsageError(what, "--after", f"start that one again, or say --after-any {paths.run_id}")
            continue
        handle = read_native_handle(run)
        if handle is None:
            raise UsageError(f"{run.run_id} is not submitted yet", "--after", "try again in a moment")
        roots.append(run.root)
        handles.append(handle)
    return RunDependency(paths.run_id, tuple(handles), tuple(roots), any_end)


def _element_statuses(paths: RunPaths, environ: Mapping[str, str]) -> list[tuple[RunPaths, Status]]:

    if not os.path.exists(array_file(paths.root)):
        run = Run(paths, environ)
        return [(paths, run.look())]
    from worldsize.service.runs.array import RunArray

    array = RunArray(paths, environ)
    return [(run.paths, status) for run, status in zip(array, array.statuses(), strict=True)]
