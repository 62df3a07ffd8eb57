"""`stage:` of a job, for nodes without a network: fetch it before the start, and find what would still fail there."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.compute.base import CheckResult
from worldsize.errors import UsageError, WorldsizeError
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.service.request import KeyOrigins, PlannedJob, Progress, SubmissionRequest
from worldsize.service.secrets import restricted_environ, variables_of_requirements
from worldsize.service.submission.inputs import data_directory
from worldsize.trust.secrets import mask_values, secret_values
from worldsize.wings.staging.download_scan import Download, downloads_of
from worldsize.wings.staging.fetch import DataStore
from worldsize.wings.staging.http import display_url
from worldsize.wings.staging.spec import StagingSpec, staging_spec_of
from worldsize.wings.staging.stage import make_staging_directory

_MAX_SHOWN = 8
_HINTS = {
    "huggingface": "stage: {huggingface: [%s]}",
    "torch_hub": "stage: {torch_hub: [%s]}",
    "pip": "stage: {pip: requirements.txt}, or build it into the environment",
    "data": "name the data as an input, or under stage: {data: …}",
    "service": "build it into the environment",
    "wandb": "set WANDB_MODE=offline, and `wandb sync` afterwards",
}


def fetch(request: SubmissionRequest, dry: PlannedJob, progress: Progress) -> SubmissionRequest:
    """Fetch what the request's job stages. Return the request with it. UsageError, WorldsizeError."""
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
    """The secret values that the job's requirements ask for: pip repeats them in an address that it cannot reach."""
    asked = variables_of_requirements(staging_spec_of(job.stage).wheels)
    return secret_values({name: environ[name] for name in asked if name in environ}, job.secrets)


def check_downloads(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    """Find what the job's files would download, and is not staged: a notice for each, on nodes without a network."""
    code = job.code if job.code and os.path.isdir(job.code) else ""
    text = "\n".join((job.command, *job.setup)) if job.batch_script is None else job.batch_script
    found = downloads_of(code, text)
    stage = staging_spec_of(job.stage)
    missing = [each for each in found if not _is_staged(each, stage)]
    notices = [_notice(each, origins) for each in missing[:_MAX_SHOWN]]
    more = missing[_MAX_SHOWN:]
    if more:
        notices.append(CheckResult("notice", f"{len(more)} more downloads would fail on the nodes", more[0].file))
    return notices


def _notice(download: Download, origins: KeyOrigins) -> CheckResult:
    where = f"{download.file}:{download.line}" if download.file else origins.of("command")
    what = f"{download.what} would fail: the nodes reach no network"
    return CheckResult("notice", what, where, _hint_of(download))


def _hint_of(download: Download) -> str:
    text = _HINTS["wandb" if download.name == "wandb" else download.kind]
    return text % (display_url(download.name) if download.name else "…") if "%s" in text else text


def _is_staged(download: Download, stage: StagingSpec) -> bool:
    if download.kind == "pip":
        return bool(stage.wheels)
    if download.kind == "huggingface":
        names = {repo.name if repo.kind == "models" else "{}/{}".format(*repo[:2]) for repo in stage.hub}
        return download.name in names if download.name else bool(names)
    if download.kind == "torch_hub":
        names = {"{}/{}".format(*repo[:2]) for repo in stage.torch} | set(stage.checkpoints)
        return download.name.partition(":")[0] in names or download.name in names if download.name else bool(names)
    return download.kind == "data" and bool(stage.data)


def _python(plan: Plan, environ: Mapping[str, str]) -> str:
    """The interpreter that `python` means in the job's command, on this machine."""
    import sys
    from shutil import which

    places = os.pathsep.join((*plan.path, environ.get("PATH", os.defpath)))
    return which(plan.python, path=places) or which("python3", path=places) or sys.executable
