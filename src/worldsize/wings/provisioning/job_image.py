"""The container image of a job (`environment.image`): the choice of the container runtime, the command words that start
a rank in the image, and the changed plan.

Apptainer (formerly named Singularity): each rank is a process of `apptainer exec`, which the agent starts on the host.
Pyxis: Slurm's srun starts the agents themselves in the container (option --container-image, implemented by enroot).
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from worldsize.common.path_mapping import to_node_path
from worldsize.compute.base import CheckResult, ComputeFacts
from worldsize.errors import UsageError, WorldsizeError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Input, Job
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

APPTAINER, SINGULARITY, PYXIS, NONE = "apptainer", "singularity", "pyxis", "none"
_SCHEME = re.compile(r"[a-z][a-z0-9+-]*://")
_FILE_ENDINGS = (".sif", ".simg", ".sqsh", ".img", ".squashfs")
_MAX_MESSAGE_LENGTH = 600

HOST_VARIABLES = (
    "LD_LIBRARY_PATH", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONHOME",
    "LOADEDMODULES", "_LMFILES_", "MODULEPATH",
)  # fmt: skip
"""Environment variables that name files or environments of the host, which the image does not contain."""
_DRIVER = "/proc/driver/nvidia/version"
_PYXIS_OPTION = "--container-image"
_LOGINS = ("APPTAINER_", "SINGULARITY_", "ENROOT_")


class ContainerRuntime(NamedTuple):
    """A container runtime. `program` is the command that is executed on the nodes; "" for Pyxis, which is part of srun,
    and for no runtime."""

    kind: str
    program: str


def find_runtime(settings: ComputeSettings, environ: Mapping[str, str]) -> ContainerRuntime | None:
    """Find the container runtime of a compute: the one that `settings` names, else Apptainer, Singularity or (on Slurm)
    Pyxis, if it is found on this machine, which is the compute's login node. None if there is none. An srun that cannot
    be called counts as one without Pyxis."""
    from shutil import which

    asked = settings.container
    if asked in (PYXIS, NONE):
        return ContainerRuntime(asked, "")
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


def wrap_in_container(
    plan: Plan, job: Job, image: str, request: SubmissionRequest, facts: ComputeFacts, paths: RunPaths
) -> tuple[Plan, tuple[str, ...]]:
    """Return `plan` with its ranks in the container image `image`, and the words that precede each rank's command. The
    words are empty for Pyxis, whose options are part of the plan. If the compute has no containers, the plan is
    unchanged and the words are empty."""
    settings = request.config.computes[plan.compute]
    runtime = find_runtime(settings, request.environ)
    if runtime is None or runtime.kind == NONE:
        return plan, ()
    binds = [to_node_path(bind, facts.mapped) for bind in _binds(plan, job, request, paths)]
    options = settings.container_options
    if runtime.kind == PYXIS:
        name = request.image or enroot_address(image)
        words = pyxis_options(to_node_path(name, facts.mapped), binds, options)
        inside = plan._replace(step=words, interpreter="python3", path=(), named=())
        return _without_host_variables(inside), ()
    name = to_node_path(request.image or apptainer_address(image), facts.mapped)
    gpus = bool(facts.gpus_per_node) or (facts.shared_host and os.path.exists(_DRIVER))
    words = apptainer_command(runtime.program, name, binds, gpus, options)
    return _without_host_variables(plan._replace(argv=(*words, *plan.argv))), words


def _without_host_variables(plan: Plan) -> Plan:
    """Return `plan` with HOST_VARIABLES unset in its ranks: these variables name files that exist only on the host, not
    in the container image."""
    return plan._replace(activated={**plan.activated, **dict.fromkeys(HOST_VARIABLES)})


def _binds(plan: Plan, job: Job, request: SubmissionRequest, paths: RunPaths) -> list[str]:
    """Return the directories that ranks in a container must see: the run directory (for an element of an array, that of
    the array), the node's local directory if there is one, the job's inputs and outputs, and the staged data."""
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
    """Check whether the job's ranks can run in the container image `image` on the plan's compute. Return a list with
    the problem or notice as a CheckResult; an empty list if there is none."""
    runtime = find_runtime(request.config.computes[plan.compute], request.environ)
    found = _find_obstacle(plan, job, image, runtime, request.origins.of("environment.image"))
    return [found] if found else []


def _find_obstacle(plan: Plan, job: Job, image: str, runtime: ContainerRuntime | None, key: str) -> CheckResult | None:
    if runtime is None:
        what = f"the image {mask_text(image)} needs Apptainer or Singularity, or Pyxis on Slurm: none is here"
        hint = (
            'name the program on the nodes, `container = "apptainer"` of the compute; or "none", to run without the '
            "image; or map it to an environment, in [environment_map]"
        )
        return CheckResult("error", what, key, hint)
    if runtime.kind == NONE:
        what = f"the image {mask_text(image)} is not used: the compute has no containers"
        return CheckResult("notice", what, key, id="image")
    if job.batch_script is not None:
        what = "a batch script's own srun starts its ranks: it can name the image itself"
        return CheckResult("error", what, key, "srun apptainer exec …, or srun --container-image …")
    if runtime.kind == APPTAINER and not launcher_facts(plan.launcher).in_image:
        what = f"launcher: {plan.launcher} would run outside the image"
        return CheckResult("error", what, key, f"launcher: direct, or {plan.launcher} in the command")
    if runtime.kind == PYXIS and has_password(image):
        what = f"enroot takes no password in an image's address: {mask_text(image)}"
        return CheckResult("error", what, key, "remove it, and put it into ~/.config/enroot/.credentials on the nodes")
    if is_file(image) and not os.path.exists(os.path.expanduser(image)):
        return CheckResult("error", f"no such image: {mask_text(image)}", key)
    return None


def fetch(request: SubmissionRequest, dry: PlannedJob, progress: Progress) -> SubmissionRequest:
    """Fetch the container image of the planned job `dry`, if a program on this machine can, since nodes often cannot.
    Return the request with the path of the fetched image; unchanged if there is nothing to fetch. Raise UsageError if
    the image cannot be fetched."""
    from shutil import which

    image = dry.environment.image if dry.environment else None
    if image is None or is_file(image):
        return request
    runtime = find_runtime(request.config.computes[dry.plan.compute], request.environ)
    if runtime is None or runtime.kind == NONE:
        return request
    program = which("enroot" if runtime.kind == PYXIS else runtime.program, path=request.environ.get("PATH"))
    if program is None:
        progress.notice(f"environment.image: the nodes fetch {image} themselves: no program here can", "image")
        return request
    store = ContentStore(data_directory(request.config, dry.plan.compute), progress)
    try:
        return request._replace(image=pull_image(image, runtime.kind, program, store, _fetch_environ(request, dry)))
    except UsageError as error:
        at = request.origins.of("environment.image")
        raise UsageError(f"{error.where}: {error.what}", at, error.hint) from None


def _fetch_environ(request: SubmissionRequest, dry: PlannedJob) -> dict[str, str]:
    """Return the environment variables for the program that fetches a container image. Of the variables that the job's
    `secrets:` names, only the program's own logins are included (APPTAINER_…, SINGULARITY_…, ENROOT_…)."""
    hidden = [name for name in dry.job.secrets if not name.startswith(_LOGINS)]
    return without_variables(request.environ, withheld_variables(hidden, request.environ))


def is_file(image: str) -> bool:
    """Return whether the container image `image` is given as a path, of a file or an unpacked directory, and not as an
    address in a registry."""
    return image.endswith(_FILE_ENDINGS) or image.startswith(("/", "./", "../", "~"))


def apptainer_address(image: str) -> str:
    """Return the address of a container image in the form for apptainer. A bare name is an image of Docker's registry,
    and gets the prefix "docker://"."""
    return image if is_file(image) or _SCHEME.match(image) else "docker://" + image


def enroot_address(image: str) -> str:
    """Return the address of a container image in the form for enroot: with a # between registry and name. A path is
    returned unchanged."""
    if is_file(image):
        return image
    name = image.removeprefix("docker://")
    first, slash, rest = name.partition("/")
    if "#" in name or not slash or not (set(first) & set(".:") or first == "localhost"):
        return name
    return f"{first}#{rest}"


def has_password(image: str) -> bool:
    """Return whether the address of a container image contains a user name and a password."""
    login, at, _ = image.removeprefix("docker://").partition("/")[0].rpartition("@")
    return bool(at) and ":" in login


def apptainer_command(
    program: str, image: str, binds: Sequence[str], gpus: bool, options: Sequence[str]
) -> tuple[str, ...]:
    """Return the `apptainer exec` words that precede a rank's command, so that it runs in `image`. `binds` are
    directories that are mounted at their own paths; `gpus` adds `--nv`; `options` are further options. The working
    directory, the environment variables, signals and the exit code are the same as outside."""
    words = [program, "exec", *(["--nv"] if gpus else [])]
    for bind in _outermost_directories(binds):
        words += ["--bind", bind.replace(":", "\\:") if ":" in bind else bind]
    return (*words, *options, image)


def pyxis_options(image: str, binds: Sequence[str], options: Sequence[str]) -> tuple[str, ...]:
    """Return the options of the srun that starts the agents in the container image `image` with Pyxis, with the
    directories `binds` mounted at their own paths, and then `options`."""
    mounts = ",".join(f"{bind}:{bind}" for bind in _outermost_directories(binds))
    return ("--container-image=" + image, "--container-mounts=" + mounts, "--no-container-mount-home", *options)


def _outermost_directories(binds: Sequence[str]) -> list[str]:
    """Return the directories of `binds`, sorted and without those that are below another one of them."""
    found: list[str] = []
    for bind in sorted(set(binds)):
        if not any(bind == other or bind.startswith(other.rstrip("/") + "/") for other in found):
            found.append(bind)
    return found


def pull_image(image: str, runtime: str, program: str, store: ContentStore, environ: Mapping[str, str]) -> str:
    """Fetch the container image `image` as one file that the nodes see, with `program` (apptainer or enroot), unless
    `store` already has it. Return the file's path. Raise UsageError, with the program's message, if it cannot be
    fetched."""
    name = enroot_address(image) if runtime == PYXIS else apptainer_address(image)
    key = hashlib.sha256(name.encode()).hexdigest()[:32]
    path = os.path.join(store.directory, "images", key)
    ending = ".sqsh" if runtime == PYXIS else ".sif"

    def fill(part: str) -> None:
        os.makedirs(part, 0o700)
        target = os.path.join(part, "image" + ending)
        store.report_notice(f"fetching the container image {mask_text(image)}")
        words = [program, "import", "-o", target, "docker://" + name] if runtime == PYXIS else []
        _run(words or [program, "pull", target, name], image, environ)

    store.make(path, fill, "image")
    return os.path.join(path, "image" + ending)


def _run(argv: Sequence[str], image: str, environ: Mapping[str, str]) -> None:
    try:
        done = subprocess.run(
            argv, env=environ, cwd=os.sep, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise UsageError(f"cannot be fetched: {argv[0]}: {error.strerror}", mask_text(image)) from None
    if done.returncode:
        said = mask_text(done.stderr.strip() or done.stdout.strip())[-_MAX_MESSAGE_LENGTH:]
        what = f"cannot be fetched: {os.path.basename(argv[0])} printed:\n{said}"
        raise UsageError(what, mask_text(image), "correct its name")
