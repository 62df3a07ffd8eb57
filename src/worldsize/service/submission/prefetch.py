"""What is fetched here before a run is created: the data that it names, what it stages, and what it runs in."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize.jobspec.paths import is_remote
from worldsize.service.providers import provider
from worldsize.service.request import PlannedJob, Progress, SubmissionRequest
from worldsize.service.submission.inputs import data_inputs


def fetch_all(request: SubmissionRequest, dry: PlannedJob, progress: Progress) -> SubmissionRequest:
    """The request with all of it, here. UsageError, WorldsizeError: what cannot be had."""
    for kind in _needed(dry):
        request = provider(kind).fetch(request, dry, progress)
    return request


def _needed(dry: PlannedJob) -> Iterator[str]:
    """The providers that have to fetch something, in order."""
    if any(is_remote(value.path or "") or value.sha256 for _, value in data_inputs(dry.job)):
        yield "inputs"
    if dry.job.stage:
        yield "staging"
    if dry.environment is not None and dry.plan.local is not None and dry.plan.local.archive is not None:
        yield "packs"
    if dry.environment is not None and dry.environment.image:
        yield "images"
