"""What is fetched here before a run is created: the data that it names, and what it stages."""

from __future__ import annotations

from worldsize.service.request import PlannedJob, Progress, SubmissionRequest


def fetch_all(request: SubmissionRequest, dry: PlannedJob, progress: Progress) -> SubmissionRequest:
    """The request with all of it, here. UsageError, WorldsizeError: what cannot be had."""
    if request.job.inputs:
        from worldsize.service.submission.inputs import fetch_inputs

        request = fetch_inputs(request, dry, progress)
    if request.job.stage:
        from worldsize.wings.staging.offline import fetch_staging

        request = fetch_staging(request, dry, progress)
    if request.job.environment is not None:
        from worldsize.wings.provisioning.distribution import pack_environment

        request = pack_environment(request, dry, progress)
    if dry.environment is not None and dry.environment.image:
        from worldsize.wings.provisioning.job_image import fetch_image

        request = fetch_image(request, dry, progress)
    return request
