"""Modules for a run's ranks in their run directory: the exception hook, and packages that are loaded with torch.

A package is the folder `inrank` of a wing. In the run, its modules are one package of `worldsize_inrank`, under the
package's name. Its files without a suffix are programs, which the ranks find first on PATH.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping

from worldsize.common.atomic_files import link_or_copy, read_file, write_bytes
from worldsize.common.digests import digest_of
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.plan.rank_environment import MLFLOW_URI
from worldsize.plan.run_paths import RunPaths
from worldsize.registry import missing_error, source_file
from worldsize.trust.directories import make_directories

_STACKS = "hangs"
"""The package by which ranks write their stacks. Each run has it if this installation has it."""

_FORKS = "warm_start"
"""The package of the process that a node's ranks are forked from. Runs whose plan has such a process have it."""

DEBUGGER = "debugger"
"""The package that makes a rank wait for a debugger."""

_WINGS = {
    "virtual_gpu": "rehearsal",
    "data_parallel": "data_parallel",
    DEBUGGER: "debugger",
    _STACKS: "hangs",
    _FORKS: "warm_start",
}
"""The wing that contains each package, by the package's name in a plan. Error messages use the wing's name."""

HOOK = "inrank/sitecustomize.py"
_PACKAGES_DIRECTORY = "inrank/worldsize_inrank"
_LOADER = "import_hook.py"
_MLFLOW_PLUGIN = "inrank/worldsize_mlflow-1.dist-info"
_MLFLOW_FILES = {
    "METADATA": b"Metadata-Version: 2.1\nName: worldsize-mlflow\nVersion: 1\n",
    "entry_points.txt": b"".join(
        b"[mlflow.%s]\nfile = worldsize_mlflow.builders:build_%s\n" % words
        for words in (
            (b"tracking_store", b"tracking_store"),
            (b"model_registry_store", b"registry"),
            (b"artifact_repository", b"artifacts"),
        )
    ),
}
"""The files by which MLflow in a rank finds the store of its run, as it finds the plug-ins of any package. MLflow 2.9
searches for the file itself, in directories only. Programs that list packages fail if METADATA is missing."""

PROGRAMS = "inrank/bin"
"""The directory in a run that contains worldsize's programs for its ranks."""


def packages_of(job: Job) -> tuple[str, ...]:
    """Return the names of the rank packages (modules that are loaded with torch) that the job requests, in the order in
    which they change torch, followed by the package that every run has. Raise ConfigError if one is requested and this
    installation is without it."""
    asked = {"virtual_gpu": job.virtual_gpus, "data_parallel": job.data_parallel}
    found = tuple(name for name, value in asked.items() if value is not None)
    for name in found:
        if not _is_there(name):
            raise missing_error(f"`{_WINGS[name]}`")
    return (*found, _STACKS) if _is_there(_STACKS) else found


def packages_in(plan: Plan) -> tuple[str, ...]:
    """Return the names of the rank packages that a run of the plan has: those of the plan and, for a warm start, the
    package of the process that ranks are forked from."""
    return (*plan.inrank, _FORKS) if plan.start.modules else plan.inrank


def _is_there(package: str) -> bool:
    return os.path.isfile(os.path.join(_folder(package), "__init__.py"))


def _folder(package: str) -> str:
    return source_file("wings", _WINGS[package], "inrank")


def rank_modules(packages: tuple[str, ...]) -> Mapping[str, str]:
    """Return the source files of the modules that ranks find in their run directory, as a mapping of their path there
    to the path of the source: the exception hook, and the modules of the `packages`."""
    found = {HOOK: source_file(*HOOK.split("/"))}
    if set(packages) - {_STACKS, _FORKS}:  # the hook loads these two without the loader
        found[f"{_PACKAGES_DIRECTORY}/{_LOADER}"] = source_file("inrank", _LOADER)
    for package in packages:
        root = _folder(package)
        for folder, _, files in os.walk(root):
            at = os.path.join(_PACKAGES_DIRECTORY, package, os.path.relpath(folder, root))
            modules = [file for file in files if file.endswith(".py")]
            found.update({os.path.normpath(os.path.join(at, file)): os.path.join(folder, file) for file in modules})
    return dict(sorted(found.items()))


def write_packages(packages: tuple[str, ...], paths: RunPaths, cache: str) -> None:
    """Write the modules of `rank_modules` into the run directory, each with its bytecode from `cache`, since compiling
    them would cost each rank more than reading, and the programs of the packages. Raise OSError if that fails."""
    from worldsize.snapshot.agent_bundle import ensure_bytecode

    for name, source in rank_modules(packages).items():
        folder, file = os.path.split(os.path.join(paths.root, name))
        compiled = os.path.join(folder, "__pycache__")
        make_directories(compiled)
        write_bytes(os.path.join(folder, file), read_file(source))
        link_or_copy(
            ensure_bytecode(source, cache),
            os.path.join(compiled, f"{file[:-3]}.{sys.implementation.cache_tag}.pyc"),
        )
    for source in _programs(packages):
        program = os.path.join(paths.root, PROGRAMS, os.path.basename(source))
        make_directories(os.path.dirname(program))
        write_bytes(program, read_file(source))
        os.chmod(program, 0o700)


def write_mlflow_plugin(plan: Plan, paths: RunPaths, cache: str) -> None:
    """Write, into the run directory, the entry points by which MLflow in the ranks stores its runs in this run, as
    links to files in `cache`. They name modules of agent.pyz. Without them MLflow uses its own file store. Nothing is
    written if the plan has no metrics, or the user sets another store. Raise OSError if that fails."""
    if not plan.metrics or MLFLOW_URI in plan.environment:
        return
    folder = os.path.join(paths.root, _MLFLOW_PLUGIN)
    make_directories(folder)
    for name, data in _MLFLOW_FILES.items():
        kept = os.path.join(cache, f"mlflow-{digest_of(data)[:16]}-{name}")
        if not os.path.exists(kept):
            write_bytes(kept, data)
        link_or_copy(kept, os.path.join(folder, name))


def _programs(packages: tuple[str, ...]) -> Iterator[str]:
    for folder in map(_folder, packages):
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if "." not in name and os.path.isfile(path):
                yield path


def with_programs(plan: Plan, job: Job, former: RunPaths, paths: RunPaths) -> Plan:
    """Return the `plan` of a rehearsal with the directory of rank programs in the run directory `paths` first on PATH,
    and without the one in `former`. The job's own lines of setup come later, and may place others first."""
    old, new = (os.path.join(each.root, PROGRAMS) for each in (former, paths))
    if not plan.setup:
        return plan._replace(path=(new, *(each for each in plan.path if each != old)))
    line = "export PATH={}:$PATH"
    lines = [each for each in plan.setup if each != line.format(shlex.quote(old))]
    cut = len(lines) - len(job.setup)
    return plan._replace(setup=(*lines[:cut], line.format(shlex.quote(new)), *lines[cut:]))
