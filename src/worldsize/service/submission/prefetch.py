"""Fetching and building before a run is created: the data that its job names, staged files, and its environment."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from worldsize.jobspec.paths import is_remote
from worldsize.plan.run_paths import RunPaths
from worldsize.service.providers import provider
from worldsize.service.request import PlannedJob, Progress, SubmissionRequest
from worldsize.service.submission.inputs import data_inputs
from worldsize.service.submission.plan_job import plan_job


def provide(
    request: SubmissionRequest,
    planned: PlannedJob,
    created: float,
    progress: Progress,
    start: Callable[[SubmissionRequest, Progress], RunPaths],
) -> tuple[SubmissionRequest, PlannedJob]:
    """Build the job's environment, and fetch its data and staged files, before its run is created. Return the request
    and the planned job that use them; the job is planned again if anything was built or fetched. `start` starts runs
    that build. Raise UsageError or WorldsizeError if something is not available."""
    if planned.facts.hosted:
        return request, planned
    built = planned.environment is not None and not planned.environment.ready
    if planned.environment is not None and planned.environment.recipe is not None:
        provider("environments").ensure_ready(planned.environment, progress, start)
    provided = request
    for kind in _needed(planned):
        provided = provider(kind).fetch(provided, planned, progress)
    if provided is request and not built:
        return request, planned
    return provided, plan_job(provided, created, planned)


def _needed(dry: PlannedJob) -> Iterator[str]:
    """Yield the kinds of the providers ("inputs", "staging", "packs", "images") that have to fetch something for the
    planned job, in order."""
    if any(is_remote(value.path or "") or value.sha256 for _, value in data_inputs(dry.job)):
        yield "inputs"
    if dry.job.stage:
        yield "staging"
    if dry.environment is not None and dry.plan.local is not None and dry.plan.local.archive is not None:
        yield "packs"
    if dry.environment is not None and dry.environment.image:
        yield "images"
