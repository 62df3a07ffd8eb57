"""The `stage:` section of a job, for nodes without a network: its data is fetched before the start."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.errors import UsageError, WorldsizeError
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.service.request import PlannedJob, Progress, SubmissionRequest
from worldsize.service.secrets import restricted_environ, variables_of_requirements
from worldsize.service.submission.inputs import data_directory
from worldsize.trust.secrets import mask_values, secret_values
from worldsize.wings.staging.fetch import DataStore
from worldsize.wings.staging.spec import staging_spec_of
from worldsize.wings.staging.stage import make_staging_directory


def fetch(request: SubmissionRequest, dry: PlannedJob, progress: Progress) -> SubmissionRequest:
    """Fetch the data that the `stage:` section of the planned job `dry` names. Return the request with the staging
    directory. Raise UsageError, WorldsizeError."""
    directory = data_directory(request.config, dry.plan.compute)
    data = DataStore(directory, progress)
    python = _python(dry.plan, request.environ)
    secrets = _secrets(dry.job, request.environ)
    try:
        programs = restricted_environ((dry.job.stage or {}).get("pip", ()), dry.job, request.environ)
        staged = make_staging_directory(
            staging_spec_of(dry.job.stage), directory, data, python, request.environ, programs, secrets
        )
    except WorldsizeError as error:
        what = f"{error.where}: {error.what}" if error.where else error.what
        what = mask_values(what, secrets)
        kind = UsageError if isinstance(error, UsageError) else WorldsizeError
        raise kind(what, request.origins.of("stage"), error.hint) from None
    return request._replace(staged=staged)


def _secrets(job: Job, environ: Mapping[str, str]) -> list[str]:
    """Return the secret values that the job's staged pip requirements use, from `environ`: pip repeats them in an
    address that it cannot reach."""
    asked = variables_of_requirements(staging_spec_of(job.stage).wheels)
    return secret_values({name: environ[name] for name in asked if name in environ}, job.secrets)


def _python(plan: Plan, environ: Mapping[str, str]) -> str:
    """Return the path of the Python interpreter on this machine that corresponds to `python` in the job's command."""
    import sys
    from shutil import which

    places = os.pathsep.join((*plan.path, environ.get("PATH", os.defpath)))
    return which(plan.python, path=places) or which("python3", path=places) or sys.executable
