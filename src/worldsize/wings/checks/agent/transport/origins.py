"""The origins of variables that change the transport, as far as a node can determine them.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from worldsize.agent.machine.node_files import names_in, text_of
from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.node_context import NodeContext

JOB = "the job"
IMAGE = "the image"
NODE = "the node's environment"
CONTAINER = "the container's environment"

_CONTAINER_FILES = ((".dockerenv",), ("run", ".containerenv"))
"""The files by which Docker and Podman mark a container. The environment of a container's first process contains the
variables of the image and those passed from outside. If that environment is not readable, the origin is CONTAINER."""
_IMAGE_ENVIRONMENT = (".singularity.d", "env")
"""The directory of an Apptainer image's own environment files. Apptainer passes the host's environment on, so only
these files prove that a variable comes from the image."""


def variable_origins(names: Iterable[str], context: NodeContext) -> dict[str, str]:
    """Return a mapping of each environment variable in `names` to its origin: JOB, IMAGE, CONTAINER, NODE, or the NCCL
    file that sets it. A variable without a known origin is missing."""
    found = {name: _origin(name, context) for name in names}
    return {name: origin for name, origin in found.items() if origin}


def _origin(name: str, context: NodeContext) -> str:
    if name in _job_variables(context.asked):
        return JOB
    if name not in context.environ:
        return _in_file(name, context)
    if any(os.path.exists(context.path(*file)) for file in _CONTAINER_FILES):
        first = text_of(context.path("proc", "1", "environ"))
        return (IMAGE if f"\0{name}=" in f"\0{first}" else NODE) if first else CONTAINER
    return IMAGE if _in_image(name, context) else NODE


def _job_variables(asked: Mapping[str, Any]) -> Iterable[str]:
    variables = asked.get("variables")
    return variables if isinstance(variables, (Mapping, list, tuple)) else ()


def _in_image(name: str, context: NodeContext) -> bool:
    folder = context.path(*_IMAGE_ENVIRONMENT)
    files = names_in(folder)[:64]
    return any(re.search(rf"\b{name}=", text_of(os.path.join(folder, file))) for file in files)


def _in_file(name: str, context: NodeContext) -> str:
    """Return the NCCL configuration file that sets the variable `name`, such as "/etc/nccl.conf"; "" if there is none.
    NCCL reads its variables from files, too, but the environment takes precedence."""
    home = context.environ.get("HOME", "")
    files = [(os.path.join(home, ".nccl.conf"), "~/.nccl.conf")] if home.startswith("/") else []
    for path, shown in (*files, (context.path("etc", "nccl.conf"), "/etc/nccl.conf")):
        if any(line.strip().startswith(f"{name}=") for line in text_of(path).splitlines()):
            return shown
    return ""
