"""The versions of the job's Python and of the packages that matter, by their files alone: no Python is started.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from worldsize.agent.machine.node_files import names_in
from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.node_context import NodeContext, ProbeResult
from worldsize.wings.checks.agent.readers.asked_values import asked_text
from worldsize.wings.checks.agent.readers.python_files import (
    PythonFiles,
    find_python,
    package_directories,
    read_python,
)
from worldsize.wings.checks.agent.readers.rank_directory import rank_directory

_COMPARED = frozenset((
    "torch", "torchvision", "pytorch-lightning", "lightning", "accelerate", "transformers", "datasets", "deepspeed",
    "horovod", "tensorflow", "tensorflow-cpu", "keras", "jax", "jaxlib", "flax", "ray", "numpy", "mpi4py", "triton",
    "flash-attn", "xformers", "megatron-core",
))  # fmt: skip
_BEGINNINGS = ("nvidia-nccl-", "nvidia-cudnn-", "nvidia-cuda-runtime", "jax-cuda")
_OF_CONDA = frozenset(("nccl", "cudatoolkit", "cuda-version", "openmpi", "mpich", "ucx", "libfabric"))


def probe(context: NodeContext) -> ProbeResult:
    """Its facts: python (only with all three numbers), python_minor, packages. None where the files do not tell."""
    program = asked_text(context.asked, "python")
    try:
        path = find_python(program, context.environ, rank_directory(context)) if program else None
    except OSError:  # that there is no such program is what `imports` says
        path = None
    if path is None:
        return ProbeResult()
    python = read_python(path)
    facts: dict[str, Any] = {"python": python.version, "python_minor": python.minor}
    if python.minor:
        facts["packages"] = installed_versions(python, context.environ)
    return ProbeResult((), {name: value for name, value in facts.items() if value})


def installed_versions(python: PythonFiles, environ: Mapping[str, str]) -> dict[str, str]:
    """The versions of the packages that are compared, by their names in the form of an index (PEP 503)."""
    found = conda_versions(python.prefix)
    for directory in reversed(package_directories(python, environ)):
        found.update(distribution_versions(names_in(directory)))
    return dict(sorted(found.items()))


def distribution_versions(names: Iterable[str]) -> dict[str, str]:
    """The versions that the names of one directory tell: `torch-2.7.1+cu126.dist-info`, `numpy-1.24.2.egg-info`,
    `mpi4py-3.1.4-py3.11-linux-x86_64.egg-info`. A package with two versions, the remains of an update, is left out."""
    found: dict[str, set[str]] = {}
    for entry in names:
        match = re.fullmatch(r"([A-Za-z0-9][\w.]*?)-(\d[^-]*)(?:\.dist-info|(?:-py[^/]*)?\.egg-info)", entry)
        name = re.sub(r"[-_.]+", "-", match[1]).lower() if match else ""
        if match and (name in _COMPARED or name.startswith(_BEGINNINGS)):
            found.setdefault(name, set()).add(match[2])
    return {name: versions.pop() for name, versions in found.items() if len(versions) == 1}


def conda_versions(prefix: str) -> dict[str, str]:
    """Libraries that conda brings, by the names of its records: `nccl-2.21.5.1-h3a97aeb_0.json`."""
    parts = [
        name[:-5].rsplit("-", 2) for name in names_in(os.path.join(prefix, "conda-meta")) if name.endswith(".json")
    ]
    return {part[0]: part[1] for part in parts if len(part) == 3 and part[0] in _OF_CONDA}
