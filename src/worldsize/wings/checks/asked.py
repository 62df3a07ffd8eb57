"""The requirements of a job for each of its nodes, which checks compare with the nodes: the mapping `asked` of
`agent/node_context.py`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from worldsize.common.path_mapping import Mapped, to_client_path, to_node_path
from worldsize.compute.base import ComputeFacts
from worldsize.environment.resolve import resolve_environment
from worldsize.errors import WorldsizeError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.job import Input, Job
from worldsize.jobspec.paths import is_remote
from worldsize.plan.node_disk import DIRECTORY_MARK
from worldsize.plan.plan import Plan
from worldsize.service.request import SubmissionRequest
from worldsize.trust.secrets import is_secret

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PYTHON = r"(?:[\w./+~-]*/)?python[0-9.]*"
_STARTERS = r"(?:[\w./+~-]*/)?(torchrun|accelerate|deepspeed|horovodrun)"
_CHANGES = (
    r"source|\.|eval|export|PATH=.*|module|ml|spack|conda|mamba|micromamba|pixi|uv|poetry|pipenv|hatch|nix|guix"
    r"|(.*/)?(activate|docker|podman|apptainer|singularity|shifter|ch-run|enroot|sarus|chroot|sudo|ssh)"
)
"""Words in a command after which `python` may be another program than before."""

_TRANSPORT = ("NCCL_", "UCX_", "OMPI_", "FI_", "PSM2_", "GLOO_", "RDMAV_", "SHARP_")
"""The prefixes of the variables by which libraries choose how nodes communicate."""


def asked_of(
    plan: Plan, request: SubmissionRequest, job: Job, facts: ComputeFacts, script: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the mapping `asked` of the node check: the known requirements of the job for each node, as JSON values.
    `script` contains the facts that the script check found in the job's script; it is {} if there are none."""
    settings = request.config.computes[plan.compute]
    ranks = max(len(node.ranks) for node in plan.nodes)
    cpus = cpus_per_rank(settings, job)
    said = {
        "gpus": plan.gpus,
        "ranks": ranks,
        "workers": script.get("workers"),
        **_python(job, request, settings),
        "framework": plan.framework if plan.framework != "none" else script.get("framework", "none"),
        "backend": script.get("backend"),
        "launcher": plan.launcher,
        "paths": [*_input_paths(plan, request, job), *_output_paths(job, facts.mapped)],
        "modules": script.get("modules"),
        "hosts": script.get("hosts"),
        "offline": job.offline or settings.offline,
        "node_disk": plan.local.base if plan.local else None,
        "share": not facts.shared_host,
        "vm_size": job.resources.instance_type,
        "cores": cpus * ranks if cpus else None,
        "variables": _transport_variables(plan, job),
        "virtual": facts.shared_host,
    }
    return {key: value for key, value in said.items() if value is not None and value != ""}


def _python(job: Job, request: SubmissionRequest, settings: ComputeSettings) -> dict[str, Any]:
    """Return the values about Python for the mapping `asked`: `python`, the Python that the job's command names. If it
    names none, return the Python of the ranks together with `python_guessed`, because the ranks may execute another
    one. Return {} if the Python is inside an image."""
    named = program_of(job.command)
    if named is not None:
        return {"python": named}
    if _is_image(job, request):
        return {}
    own = settings.python if job.environment is None and os.path.isabs(settings.python or "") else None
    if own is not None and os.path.isdir(own):
        own = os.path.join(own, "python3")
    return {"python": own or "python3", "python_guessed": True}


def _is_image(job: Job, request: SubmissionRequest) -> bool:
    """Return whether the job's ranks run in a container image, according to its environment. Return True if that is not
    known, too."""
    if job.environment is None:
        return False
    try:
        spec = resolve_environment(job.environment, request.config).spec
    except (WorldsizeError, OSError):  # the submission itself reports this error
        return True
    return spec is not None and bool(spec.image) and not (spec.needs_build or spec.existing_python)


def cpus_per_rank(settings: ComputeSettings, job: Job) -> int | None:
    """Return the number of CPUs per rank from the Slurm options of the job, or else of its compute; None if neither
    sets it."""
    said = {**settings.options, **job.slurm}.get("cpus_per_rank")
    return said if isinstance(said, int) else None


def program_of(command: str) -> str | None:
    """Return the Python program that a shell command executes: its word in the command, or "python" (in the same
    directory) for a launcher such as torchrun. None if the command names no Python, or if a word before it, such as
    `source env/bin/activate`, determines which Python that is."""
    for word in re.split(r"[\s;&|()'\"]+", command):
        if re.fullmatch(_CHANGES, word):
            return None
        if re.fullmatch(_PYTHON, word):
            return word
        starter = re.fullmatch(_STARTERS, word)
        if starter:
            return os.path.join(os.path.dirname(word), "python")
    return None


def _input_paths(plan: Plan, request: SubmissionRequest, job: Job) -> Iterator[list[str]]:
    """Yield pairs [key, path], such as ["inputs.data", "/data"], for the job's inputs that nodes read, with the path on
    the nodes. Optional inputs and those that are yet to be fetched are omitted."""
    sources = {copy.name: copy.source for copy in plan.local.copies} if plan.local else {}
    for name, value in job.inputs.items():
        if not isinstance(value, Input) or value.path is None or value.optional:
            continue
        if is_remote(value.path) and name not in request.fetched:
            continue
        path = sources.get(name) or plan.environment.get("WORLDSIZE_INPUT_" + re.sub(r"\W", "_", name), "")
        if os.path.isabs(path) and DIRECTORY_MARK not in path:
            yield ["inputs." + name, path]


def _output_paths(job: Job, mapped: Mapped) -> Iterator[list[str]]:
    """Yield pairs [key, path], such as ["outputs.model", "/results"], for the job's outputs with an absolute path of
    their own. The path is the nearest existing directory above the output, as nodes see it."""
    for name, output in job.outputs.items():
        if output.path is None or is_remote(output.path) or not os.path.isabs(output.path):
            continue
        path = os.path.dirname(to_client_path(output.path, mapped))
        while not os.path.isdir(path) and path != os.path.dirname(path):
            path = os.path.dirname(path)
        if path != os.path.dirname(path):
            yield ["outputs." + name, to_node_path(path, mapped)]


def _transport_variables(plan: Plan, job: Job) -> dict[str, str]:
    """Return the job's own environment variables that determine how nodes communicate, such as NCCL_ and UCX_
    variables, with their values in the plan. Secrets are omitted."""
    said = (name for name in job.environment_variables if name.startswith(_TRANSPORT))
    known = {name: plan.environment[name] for name in said if name in plan.environment and name not in plan.secrets}
    return {name: value for name, value in known.items() if not is_secret(name, value)}
