"""What is fetched here before a run is created: the data that it names, and what it stages."""

from __future__ import annotations

from worldsize.service.request import Prepared, Progress, Request


def provided(request: Request, dry: Prepared, progress: Progress) -> Request:
    """The request with all of it, here. UsageError, WorldsizeError: what cannot be had."""
    if request.job.inputs:
        from worldsize.service.provisioning.inputs import with_data

        request = with_data(request, dry, progress)
    if request.job.stage:
        from worldsize.service.provisioning.offline import with_stage

        request = with_stage(request, dry, progress)
    if request.job.environment is not None:
        from worldsize.service.provisioning.pack import with_pack

        request = with_pack(request, dry, progress)
    if dry.environment is not None and dry.environment.image:
        from worldsize.service.provisioning.image import with_image

        request = with_image(request, dry, progress)
    return request
