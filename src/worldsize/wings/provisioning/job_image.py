"""`image:` of a job's environment: by which runtime its ranks run in it, and what the plan then says."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from worldsize.common.path_mapping import to_node_path
from worldsize.compute.base import CheckResult, ComputeFacts
from worldsize.errors import UsageError, WorldsizeError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Job
from worldsize.plan.array import array_of
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.node_disk import DIRECTORY_MARK
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import PlannedJob, Progress, SubmissionRequest
from worldsize.service.submission.inputs import data_directory
from worldsize.store.content_store import ContentStore
from worldsize.trust.procfs import withheld_variables, without_variables
from worldsize.trust.secrets import mask_text
from worldsize.wings.provisioning import image as container_image
from worldsize.wings.provisioning.image import APPTAINER, NONE, PYXIS, SINGULARITY

_DRIVER = "/proc/driver/nvidia/version"
_PYXIS_OPTION = "--container-image"
_LOGINS = ("APPTAINER_", "SINGULARITY_", "ENROOT_")


class ContainerRuntime(NamedTuple):
    """`program` is what is executed on the nodes; "" for Pyxis, which is srun's."""

    kind: str
    program: str


def find_runtime(settings: ComputeSettings, environ: Mapping[str, str]) -> ContainerRuntime | None:
    """What the compute has, as configured or as this machine, its login node, tells; None for nothing."""
    from shutil import which

    asked = settings.container
    if asked == PYXIS:
        return ContainerRuntime(PYXIS, "")
    if asked == NONE:
        return ContainerRuntime(NONE, "")
    for program in (asked,) if asked else (APPTAINER, SINGULARITY):
        found = which(program, path=environ.get("PATH"))
        if found or asked:
            return ContainerRuntime(APPTAINER, program)
    if settings.type == "slurm":
        from worldsize.compute.slurm.commands import call

        try:
            if _PYXIS_OPTION in call(["srun", "--help"], environ=environ).out:
                return ContainerRuntime(PYXIS, "")
        except WorldsizeError:
            pass
    return None


class ContainerPlan(NamedTuple):
    """`wrap` are the words that stand in front of each rank's command."""

    plan: Plan
    wrap: tuple[str, ...] = ()


def wrap_in_container(
    plan: Plan, job: Job, image: str, request: SubmissionRequest, facts: ComputeFacts, paths: RunPaths
) -> ContainerPlan:
    """`plan` with its ranks in the image, unless the compute has no containers."""
    settings = request.config.computes[plan.compute]
    runtime = find_runtime(settings, request.environ)
    if runtime is None or runtime.kind == NONE:
        return ContainerPlan(plan)
    binds = [to_node_path(bind, facts.mapped) for bind in _binds(plan, job, request, paths)]
    options = settings.container_options
    if runtime.kind == PYXIS:
        name = request.image or container_image.enroot_address(image)
        words = container_image.pyxis_options(to_node_path(name, facts.mapped), binds, options)
        return ContainerPlan(
            plan._replace(step=words, interpreter="python3", path=(), named=(), activated=_without_host_variables(plan))
        )
    name = to_node_path(request.image or container_image.apptainer_address(image), facts.mapped)
    gpus = bool(facts.gpus_per_node) or (facts.shared_host and os.path.exists(_DRIVER))
    words = container_image.apptainer_command(runtime.program, name, binds, gpus, options)
    return ContainerPlan(plan._replace(argv=(*words, *plan.argv), activated=_without_host_variables(plan)), words)


def _without_host_variables(plan: Plan) -> dict[str, str | None]:
    """What names something of the host stays outside."""
    return {**plan.activated, **dict.fromkeys(container_image.HOST_VARIABLES)}


def _binds(plan: Plan, job: Job, request: SubmissionRequest, paths: RunPaths) -> list[str]:
    """Directories that ranks must see: the run's (an element's lies in its array's), its data, what was staged."""
    from worldsize.jobspec.job import Input
    from worldsize.jobspec.paths import is_remote, output_path

    place = array_of(paths)
    found = [place[0] if place else paths.root, *([DIRECTORY_MARK] if plan.local is not None else [])]
    for name, value in job.inputs.items():
        if isinstance(value, Input) and value.path and not is_remote(value.path):
            found.append(value.path)
        elif name in request.fetched:
            found.append(request.fetched[name].path)
    found += [output_path(paths, name, output) for name, output in job.outputs.items()]
    if request.staged is not None:
        found.append(data_directory(request.config, plan.compute))
    return found


def check_image(plan: Plan, job: Job, image: str, request: SubmissionRequest) -> list[CheckResult]:
    """What stands against running the ranks in the image."""
    runtime = find_runtime(request.config.computes[plan.compute], request.environ)
    found = _find_obstacle(plan, job, image, runtime, request.origins.of("environment.image"))
    return [found] if found else []


def _find_obstacle(plan: Plan, job: Job, image: str, runtime: ContainerRuntime | None, key: str) -> CheckResult | None:
    if runtime is None:
        what = f"the image {mask_text(image)} needs Apptainer or Singularity, or Pyxis on Slurm: none is here"
        hint = 'say which the nodes have, `container = "apptainer"` of the compute; or "none", to run without the image'
        return CheckResult("error", what, key, hint)
    if runtime.kind == NONE:
        what = f"the image {mask_text(image)} is not used: the compute has no containers"
        return CheckResult("notice", what, key)
    if job.batch_script is not None:
        what = "a batch script's own srun starts its ranks: it can name the image itself"
        return CheckResult("error", what, key, "srun apptainer exec …, or srun --container-image …")
    if runtime.kind == APPTAINER and not launcher_facts(plan.launcher).in_image:
        what = f"launcher: {plan.launcher} would run outside of the image"
        return CheckResult("error", what, key, f"launcher: direct, or {plan.launcher} in the command")
    if runtime.kind == PYXIS and container_image.has_password(image):
        what = f"enroot takes no password in an image's address: {mask_text(image)}"
        return CheckResult(
            "error", what, key, "leave it out, and put it into ~/.config/enroot/.credentials on the nodes"
        )
    if container_image.is_file(image) and not os.path.exists(os.path.expanduser(image)):
        return CheckResult("error", f"no such image: {mask_text(image)}", key)
    return None


def fetch(request: SubmissionRequest, dry: PlannedJob, progress: Progress) -> SubmissionRequest:
    """The request with its image fetched, where this machine can: nodes often cannot. UsageError."""
    from shutil import which

    image = dry.environment.image if dry.environment else None
    if image is None or container_image.is_file(image):
        return request
    runtime = find_runtime(request.config.computes[dry.plan.compute], request.environ)
    if runtime is None or runtime.kind == NONE:
        return request
    program = which("enroot" if runtime.kind == PYXIS else runtime.program, path=request.environ.get("PATH"))
    if program is None:
        progress.notice(f"environment.image: the nodes fetch {image} themselves: nothing here can")
        return request
    store = ContentStore(data_directory(request.config, dry.plan.compute), progress)
    try:
        return request._replace(
            image=container_image.pull_image(image, runtime.kind, program, store, _fetch_environ(request, dry))
        )
    except UsageError as error:
        at = request.origins.of("environment.image")
        raise UsageError(f"{error.where}: {error.what}", at, error.hint) from None


def _fetch_environ(request: SubmissionRequest, dry: PlannedJob) -> dict[str, str]:
    """For the program that fetches an image: of what `secrets:` names, its own logins alone."""
    hidden = [name for name in dry.job.secrets if not name.startswith(_LOGINS)]
    return without_variables(request.environ, withheld_variables(hidden, request.environ))
