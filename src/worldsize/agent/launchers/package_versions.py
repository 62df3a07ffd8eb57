"""The versions of the packages that a Python finds, read from the names of files only: no Python is started.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from worldsize.agent.launchers.python_files import PythonFiles, package_directories
from worldsize.agent.machine.node_files import names_in

_COMPARED = frozenset((
    "torch", "torchvision", "pytorch-lightning", "lightning", "accelerate", "transformers", "datasets", "deepspeed",
    "horovod", "tensorflow", "tensorflow-cpu", "keras", "jax", "jaxlib", "flax", "ray", "numpy", "mpi4py", "triton",
    "flash-attn", "xformers", "megatron-core",
))  # fmt: skip
_BEGINNINGS = ("nvidia-nccl-", "nvidia-cudnn-", "nvidia-cuda-runtime", "jax-cuda")
_OF_CONDA = frozenset(("nccl", "cudatoolkit", "cuda-version", "cudnn", "openmpi", "mpich", "ucx", "libfabric"))


def installed_versions(python: PythonFiles, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the versions of the packages on which training runs depend (torch, NCCL, numpy and others), as a
    dictionary by package name in the form of an index (PEP 503). A package in several directories counts in the first
    directory on Python's path."""
    found = conda_versions(python.prefix)
    for directory in reversed(package_directories(python, environ)):
        found.update(distribution_versions(names_in(directory)))
    return dict(sorted(found.items()))


def distribution_versions(names: Iterable[str]) -> dict[str, str]:
    """Return the versions of the packages on which runs depend, by package name, as `names`, those of the entries of
    one package directory, state them: `torch-2.7.1+cu126.dist-info`, `numpy-1.24.2.egg-info`,
    `mpi4py-3.1.4-py3.11-linux-x86_64.egg-info`. A package with two versions, which an update left behind, is left out.
    """
    found: dict[str, set[str]] = {}
    for entry in names:
        match = re.fullmatch(r"([A-Za-z0-9][\w.]*?)-(\d[^-]*)(?:\.dist-info|(?:-py[^/]*)?\.egg-info)", entry)
        name = re.sub(r"[-_.]+", "-", match[1]).lower() if match else ""
        if match and (name in _COMPARED or name.startswith(_BEGINNINGS)):
            found.setdefault(name, set()).add(match[2])
    return {name: versions.pop() for name, versions in found.items() if len(versions) == 1}


def conda_versions(prefix: str) -> dict[str, str]:
    """Return the versions of libraries such as NCCL and cuDNN that conda has installed in the environment `prefix`, by
    library name, from the names of conda's records: `nccl-2.21.5.1-h3a97aeb_0.json`."""
    names = names_in(os.path.join(prefix, "conda-meta"))
    parts = [name[:-5].rsplit("-", 2) for name in names if name.endswith(".json")]
    return {part[0]: part[1] for part in parts if len(part) == 3 and part[0] in _OF_CONDA}
