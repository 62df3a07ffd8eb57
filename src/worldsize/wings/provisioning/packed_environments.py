"""Environments that are packed, and unpacked on each node's disk."""

from __future__ import annotations

import os

from worldsize.common.atomic_files import storage_error
from worldsize.common.path_mapping import to_node_path
from worldsize.compute.base import CheckResult, ComputeFacts
from worldsize.errors import UsageError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.jobspec.job import Job
from worldsize.plan.node_disk import NodeDiskPlan, PackedEnvironment
from worldsize.plan.plan import Plan
from worldsize.service.environments.lookup import Environment, image_notices
from worldsize.service.request import EnvironmentPack, PlannedJob, Progress, SubmissionRequest
from worldsize.service.submission.inputs import data_directory
from worldsize.trust.directories import make_private_directory
from worldsize.wings.provisioning.pack import SUFFIX
from worldsize.wings.provisioning.pack_cache import content_key, describe_pack, environment_of_pack, pack_once


def packed_environment(spec: EnvironmentSpec, path: str) -> Environment:
    """The environment that the packed file `path` holds. UsageError, NotFound for what is wrong with it."""
    if spec.needs_build:
        raise UsageError("nothing can be installed into a packed environment", path, "name its prefix instead")
    return Environment(spec, environment_of_pack(path), notices=image_notices(spec), archive=path)


def with_packed_environment(
    plan: Plan,
    job: Job,
    environment: Environment,
    packed: EnvironmentPack | None,
    settings: ComputeSettings,
    facts: ComputeFacts,
) -> tuple[Plan, list[CheckResult]]:
    """`plan` with the environment unpacked on each node; and what is wrong with that."""
    why = _find_obstacle(job, environment)
    if why is not None:
        return plan, [why]
    assert environment.prefix is not None
    found = packed or EnvironmentPack(environment.archive or "", "", 0, 0, 0, ())
    path = to_node_path(found.path, facts.mapped)
    archive = PackedEnvironment(path, found.digest, found.size, environment.prefix)
    local = (plan.local or NodeDiskPlan(settings.local_dir or ""))._replace(archive=archive)
    interpreter = None if environment.archive else plan.interpreter
    return plan._replace(local=local, interpreter=interpreter), []


def _find_obstacle(job: Job, environment: Environment) -> CheckResult | None:
    if job.batch_script is not None:
        what = "a batch script's own srun starts its ranks: they cannot be given an unpacked environment"
        return CheckResult("error", what, "environment", "name one that the nodes see, with distribute: shared")
    if environment.prefix is None:
        what = "only an environment that is named can be brought to the nodes' disks"
        return CheckResult("error", what, "environment.distribute", "name it: python: PATH")
    return None


def fetch(request: SubmissionRequest, dry: PlannedJob, progress: Progress) -> SubmissionRequest:
    """The request with its environment packed, where the nodes unpack it. UsageError, StorageError."""
    environment, local = dry.environment, dry.plan.local
    if environment is None or local is None or local.archive is None:
        return request
    try:
        return request._replace(packed=_make_pack(request, dry, environment, progress))
    except OSError as error:
        raise storage_error(error, error.filename or "") from None


def _make_pack(
    request: SubmissionRequest, dry: PlannedJob, environment: Environment, progress: Progress
) -> EnvironmentPack:
    if environment.archive:
        return describe_pack(environment.archive)
    assert environment.existing is not None
    found = environment.existing
    if environment.recipe is not None:
        return pack_once(found, found.prefix + SUFFIX, progress)
    name = f"{os.path.basename(found.prefix)}-{content_key(found.prefix)}{SUFFIX}"
    directory = os.path.join(data_directory(request.config, dry.plan.compute), "packs")
    make_private_directory(directory)
    return pack_once(found, os.path.join(directory, name), progress)
