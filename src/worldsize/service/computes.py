"""Functions that choose a compute by its name and open it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType

from worldsize.agent.posix.processes import find_program
from worldsize.compute.base import Compute, Handle
from worldsize.errors import ConfigError
from worldsize.jobspec.config.compute_types import COMPUTE_TYPES, LOCAL
from worldsize.jobspec.config.config import Config
from worldsize.registry import find_module, load_module

_AZURE = "azureml:"
"""Prefix of names in Azure's files."""


def choose_compute(config: Config, asked: str | None, in_job: str | None) -> str:
    """Return the name of the compute to use for a job: that of the command line (`asked`), else the job's own
    (`in_job`), else the configured default. Raise NotFound if there is no such compute, and ConfigError if it cannot be
    used."""
    return config.compute(*requested_compute(config, asked, in_job)).name


def requested_compute(config: Config, asked: str | None, in_job: str | None) -> tuple[str, str]:
    """Return the name of the compute that the command line (`asked`), the job (`in_job`) or the configuration requests,
    which may not exist, and the place where it is set. A name that a job writes as Azure does, or that
    `[azure.computes]` contains, is translated by the wing for Azure."""
    if asked:
        return asked.removeprefix(_AZURE), "--compute"
    if not in_job:
        return config.default_compute, config.default_origin
    if in_job.startswith(_AZURE) or config.azure.get("computes"):
        wing = find_module("wings.azure.mappings")
        if wing is not None:
            found = wing.compute_name(in_job, config)
            return found.name, found.where
    return in_job.removeprefix(_AZURE), "compute"


def python_path(config: Config, compute: str, environ: Mapping[str, str], script: bool = False) -> tuple[str, ...]:
    """Return the directories that are put first on the PATH of a job's commands, so that `python` means: the compute's
    `python`, else the activated environment's (already first on PATH, so nothing is added), else the one of the Python
    that runs worldsize, unless that is a tool's private environment.

    A batch script (`script`) has the PATH of the shell that submits it, as with sbatch. The directory of worldsize's
    own Python is added only to a PATH without any `python`.
    """
    configured = config.computes[compute].python
    if configured:
        return (os.path.dirname(configured) if os.path.isfile(configured) else configured,)
    if environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX"):
        return ()
    if _is_private_environment(sys.prefix):
        return ()
    if script and _has_python(environ):
        return ()
    return (os.path.dirname(sys.executable),)


def _is_private_environment(prefix: str) -> bool:
    """Return whether an environment contains only worldsize: one of pipx or uv, or that of a zipapp (pex)."""
    return "/pipx/" in prefix or "/uv/tools/" in prefix or os.path.exists(os.path.join(prefix, "PEX-INFO"))


def _has_python(environ: Mapping[str, str]) -> bool:
    try:
        return bool(find_program("python", environ))
    except OSError:
        return False


def open_compute(config: Config, name: str, environ: Mapping[str, str]) -> Compute:
    """Return the Compute for the compute `name` of the configuration. Raise NotFound if there is none, and ConfigError
    for a type that this installation cannot use."""
    settings = config.compute(name)
    module = _find_compute_module(settings.type)
    if module is None:
        raise ConfigError(f"there is no compute type {settings.type}", f"compute.{name}.type")
    make: Callable[[], Compute] = partial(module.open_compute, settings, config.home, environ)
    return _make_compute(settings.type, "open_compute", make, f"compute.{name}.type")


def compute_of_run(directory: str, handle: Handle | None, name: str, environ: Mapping[str, str]) -> Compute:
    """Return the Compute that the run in `directory` was submitted to, from the run's own directory and its `handle`.
    No configuration is needed, unless a query sends a password. In that case the configuration, and not the directory,
    names the server. Raise ConfigError for an unknown type of compute."""
    kind = handle["type"] if handle else LOCAL
    found = next((each for each, row in COMPUTE_TYPES.items() if kind in (each, *row.handles)), kind)
    module = _find_compute_module(found)
    if module is None:
        raise ConfigError(f"the run was submitted to a compute of type {kind}, which is unknown to this release")
    make: Callable[[], Compute] = partial(module.compute_of_run, directory, handle, name, environ)
    return _make_compute(found, "compute_of_run", make, f"compute {name}" if name else None)


def _make_compute(kind: str, function: str, make: Callable[[], Compute], where: str | None) -> Compute:
    if kind in COMPUTE_TYPES:
        return make()
    wing = load_module("wings.plugins.compute", "using computes of other packages")
    made: Compute = wing.make_external_compute(kind, function, make, where)
    return made


def _find_compute_module(kind: str) -> ModuleType | None:
    """Return the module with the functions `open_compute` and `compute_of_run` for the compute type `kind`; None for an
    unknown type. Raise ConfigError if this installation does not contain the type, or if another package's cannot be
    used."""
    if kind not in COMPUTE_TYPES:
        from worldsize.jobspec.config.compute_keys import find_external_type

        return find_external_type(kind)
    return load_module(COMPUTE_TYPES[kind].compute, f"the compute type {kind}")
