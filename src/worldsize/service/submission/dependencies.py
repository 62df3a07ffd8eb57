"""The runs that a run waits for (`--after RUN`), in the form that a compute needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.compute.base import RunDependency
from worldsize.errors import UsageError
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import PlannedJob, SubmissionRequest
from worldsize.service.runs.open import open_runs
from worldsize.service.runs.status import read_native_handle
from worldsize.state.records import RunState


def find_dependencies(
    found: Sequence[RunPaths], environ: Mapping[str, str], any_end: bool = False
) -> tuple[RunDependency, ...]:
    """Return a RunDependency for each run or array in `found` that has not ended, for a new run that waits for them.
    Those that have already succeeded are left out. Raise UsageError for one that has ended without success, unless
    `any_end`, and for one that has not been submitted."""
    after = [_dependency_on(paths, environ, any_end) for paths in found]
    return tuple(each for each in after if each.roots)


def _dependency_on(paths: RunPaths, environ: Mapping[str, str], any_end: bool) -> RunDependency:
    roots, handles = [], []
    several = open_runs(paths, environ)
    for run, status in zip(several.runs(), several.statuses(), strict=True):
        if status.final:
            if status.state != RunState.SUCCEEDED and not any_end:
                what = f"{run.id} is {status.state}, so this run would never start"
                raise UsageError(what, "--after", f"start that one again, or use --after-any {paths.run_id}")
            continue
        handle = read_native_handle(run.paths)
        if handle is None:
            raise UsageError(f"{run.id} is not submitted yet", "--after", "try again in a moment")
        roots.append(run.directory)
        handles.append(handle)
    return RunDependency(paths.run_id, tuple(handles), tuple(roots), any_end)


def check_dependencies(request: SubmissionRequest, planned: PlannedJob) -> None:
    """Raise UsageError if the compute of the planned run cannot wait for one of the runs that the request names with
    `--after`."""
    kind = request.config.computes[planned.plan.compute].type
    able = "after" in planned.compute.capabilities
    for after in request.after:
        if not able or any(handle["type"] != kind for handle in after.handles):
            what = f"{after.run_id} is on another compute: a run on {planned.plan.compute} cannot wait for it"
            raise UsageError(what, "--after", f"wait here: worldsize wait {after.run_id} && worldsize run …")
