"""From a compute's name to the compute."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from worldsize.compute.base import Compute, Handle
from worldsize.errors import ConfigError
from worldsize.spec.config import Compute as Settings
from worldsize.spec.config import Config


def choose_compute(config: Config, asked: str | None, in_job: str | None) -> str:
    """The name to use: the command line's, else the job's, else the configured default. NotFound for an unknown one."""
    name = (asked or in_job or config.default_compute).removeprefix("azureml:")
    where = "--compute" if asked else "compute" if in_job else config.default_place
    return config.compute(name, where).name


def python_path(config: Config, compute: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Directories that decide what `python` means: the compute's `python`, else the activated environment's (already
    first on PATH), else the one of the Python that runs us, unless that is a tool's private environment."""
    configured = config.computes[compute].python
    if configured:
        return (os.path.dirname(configured) if os.path.isfile(configured) else configured,)
    if environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX"):
        return ()
    if "/pipx/" in sys.prefix or "/uv/tools/" in sys.prefix:
        return ()
    return (os.path.dirname(sys.executable),)


def open_compute(config: Config, name: str, environ: Mapping[str, str]) -> Compute:
    """ConfigError for a type that this release cannot use."""
    settings = config.compute(name)
    if settings.type == "local":
        from worldsize.compute.local import LocalCompute

        return LocalCompute(name, environ, settings)
    if settings.type == "slurm":
        return _slurm(settings, config.home, environ)
    if settings.type == "hpcpack":
        from worldsize.compute.hpcpack.compute import HpcPackCompute

        return HpcPackCompute(settings, environ)
    raise ConfigError(
        "computes of type %s cannot be used yet" % settings.type,
        "compute.%s.type" % name,
        "this release runs on: local, slurm, hpcpack",
    )


def _slurm(settings: Settings, home: str, environ: Mapping[str, str], inside: bool | None = None) -> Compute:
    """`inside`: the run is a step of an allocation; None: it is where this shell belongs to one."""
    from worldsize.compute.slurm.compute import SlurmCompute

    cluster = SlurmCompute(settings, home, environ)
    if inside is False or (inside is None and "SLURM_JOB_ID" not in environ):
        return cluster
    from worldsize.compute.slurm.allocation import AllocationCompute, is_inside

    return AllocationCompute(cluster, environ) if inside or is_inside(environ) else cluster


def compute_of_handle(handle: Handle | None, name: str, environ: Mapping[str, str]) -> Compute:
    """The compute that a run was submitted to, from the run's own directory: no configuration is needed."""
    kind = handle["type"] if handle else "local"
    if kind == "local":
        from worldsize.compute.local import LocalCompute

        return LocalCompute(name, environ)
    if kind in ("slurm", "slurm-step"):
        return _slurm(Settings(name, "slurm"), "", environ, inside=kind == "slurm-step")
    if kind == "hpcpack":
        from worldsize.compute.hpcpack.compute import HpcPackCompute
        from worldsize.compute.hpcpack.settings import as_settings

        return HpcPackCompute(as_settings(handle or {}, name), environ)
    raise ConfigError("the run was submitted to a compute of type %s, which this release does not know" % kind)
