"""Packages that a run's ranks load with torch: which a job needs, and their files in the run directory."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.common.source_files import source_file
from worldsize.jobspec.job import Job
from worldsize.plan.run_paths import RunPaths
from worldsize.trust.directories import make_directories

_PACKAGES_DIRECTORY = "inrank/worldsize_inrank"
_LOADER = "import_hook.py"
PROGRAMS = "inrank/bin"
"""Where a run has programs of ours for its ranks."""

_NVIDIA_SMI = b"""\
#!/bin/sh
exec python3 "$(dirname "$0")/../worldsize_inrank/virtual_gpu/nvidia_smi.py" "$@"
"""


def packages_of(job: Job) -> tuple[str, ...]:
    """Those that the job asks for, in the order in which torch is changed."""
    asked = {"virtual_gpu": job.virtual_gpus, "data_parallel": job.data_parallel}
    return tuple(name for name, value in asked.items() if value is not None)


def package_sources(packages: tuple[str, ...]) -> Mapping[str, str]:
    """Where each file comes from, by its name in the run directory; empty for no packages."""
    if not packages:
        return {}
    root = source_file("inrank")
    names = [_LOADER]
    for package in packages:
        for folder, _, files in os.walk(os.path.join(root, package)):
            names += [os.path.relpath(os.path.join(folder, file), root) for file in files if file.endswith(".py")]
    return {f"{_PACKAGES_DIRECTORY}/{name}": os.path.join(root, name) for name in sorted(names)}


def write_packages(packages: tuple[str, ...], paths: RunPaths, cache: str) -> None:
    """Each file with bytecode beside it, since compiling them would cost each rank more than reading. OSError."""
    if not packages:
        return
    import sys

    from worldsize.common.atomic_files import link_or_copy, write_bytes
    from worldsize.snapshot.agent_bundle import ensure_bytecode

    for name, source in package_sources(packages).items():
        folder, file = os.path.split(os.path.join(paths.root, name))
        compiled = os.path.join(folder, "__pycache__")
        make_directories(compiled)
        with open(source, "rb") as content:
            write_bytes(os.path.join(folder, file), content.read())
        link_or_copy(
            ensure_bytecode(source, cache),
            os.path.join(compiled, f"{file[:-3]}.{sys.implementation.cache_tag}.pyc"),
        )
    if "virtual_gpu" in packages:
        _write_program(os.path.join(paths.root, PROGRAMS))


def _write_program(folder: str) -> None:
    os.mkdir(folder, 0o700)
    file = os.open(os.path.join(folder, "nvidia-smi"), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
    try:
        os.write(file, _NVIDIA_SMI)
    finally:
        os.close(file)
