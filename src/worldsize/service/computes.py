"""From a compute's name to the compute."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from worldsize.agent.posix.processes import find_program
from worldsize.compute.base import Compute, Handle
from worldsize.errors import ConfigError
from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.jobspec.config.load import config_directory, load_config
from worldsize.plan.run_paths import RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.common.path_mapping import Mapped


def choose_compute(config: Config, asked: str | None, in_job: str | None) -> str:
    """The name to use: the command line's, else the job's, else the configured default. NotFound for an unknown one."""
    name = (asked or in_job or config.default_compute).removeprefix("azureml:")
    where = "--compute" if asked else "compute" if in_job else config.default_origin
    return config.compute(name, where).name


def python_path(config: Config, compute: str, environ: Mapping[str, str], script: bool = False) -> tuple[str, ...]:
    """Directories that decide what `python` means: the compute's `python`, else the activated environment's (already
    first on PATH), else the one of the Python that runs us, unless that is a tool's private environment.

    A batch script, `script`, has the PATH of the shell that submits it, as with sbatch; ours is for a PATH without any
    `python`.
    """
    configured = config.computes[compute].python
    if configured:
        return (os.path.dirname(configured) if os.path.isfile(configured) else configured,)
    if environ.get("VIRTUAL_ENV") or environ.get("CONDA_PREFIX"):
        return ()
    if "/pipx/" in sys.prefix or "/uv/tools/" in sys.prefix:
        return ()
    if script and _has_python(environ):
        return ()
    return (os.path.dirname(sys.executable),)


def _has_python(environ: Mapping[str, str]) -> bool:
    try:
        return bool(find_program("python", environ))
    except OSError:
        return False


def open_compute(config: Config, name: str, environ: Mapping[str, str]) -> Compute:
    """ConfigError for a type that this release cannot use."""
    settings = config.compute(name)
    if settings.type == "local":
        from worldsize.compute.local.compute import LocalCompute

        return LocalCompute(name, environ, settings)
    if settings.type == "slurm":
        return _slurm_compute(settings, config.home, environ)
    if settings.type == "hpcpack":
        from worldsize.compute.hpcpack.compute import HpcPackCompute

        return HpcPackCompute(settings, environ)
    raise ConfigError(
        f"computes of type {settings.type} cannot be used yet",
        f"compute.{name}.type",
        "this release runs on: local, slurm, hpcpack",
    )


def path_mapping_of(settings: ComputeSettings) -> Mapped:
    """The directories that the compute's nodes share with this machine and call otherwise, as its configuration says;
    nobody is asked."""
    if settings.type != "hpcpack":
        return ()
    from worldsize.compute.hpcpack.settings import share_of

    share = share_of(settings.options)
    return share.path_mapping() if share else ()


def _slurm_compute(
    settings: ComputeSettings, home: str, environ: Mapping[str, str], inside: bool | None = None
) -> Compute:
    """`inside`: the run is a step of an allocation; None: it is where this shell belongs to one."""
    from worldsize.compute.slurm.compute import SlurmCompute

    cluster = SlurmCompute(settings, home, environ)
    if inside is False or (inside is None and "SLURM_JOB_ID" not in environ):
        return cluster
    from worldsize.compute.slurm.allocation import AllocationCompute, is_inside_allocation

    return AllocationCompute(cluster, environ) if inside or is_inside_allocation(environ) else cluster


def compute_of_run(directory: str, handle: Handle | None, name: str, environ: Mapping[str, str]) -> Compute:
    """The compute that a run was submitted to, from the run's own directory: no configuration is needed, but where
    looking sends a password: then the configuration says where to, and not the directory."""
    kind = handle["type"] if handle else "local"
    if kind == "local":
        from worldsize.compute.local.compute import LocalCompute

        return LocalCompute(name, environ)
    if kind in ("slurm", "slurm-step"):
        return _slurm_compute(ComputeSettings(name, "slurm"), "", environ, inside=kind == "slurm-step")
    if kind == "hpcpack":
        return _hpcpack_compute_of_run(directory, handle or {}, name, environ)
    raise ConfigError(f"the run was submitted to a compute of type {kind}, which this release does not know")


def _hpcpack_compute_of_run(directory: str, handle: Handle, name: str, environ: Mapping[str, str]) -> Compute:
    """The configured compute with the handle's head node and account, for a run of this user's own."""
    from worldsize.compute.hpcpack.settings import has_account_of
    from worldsize.compute.unreachable import UnreachableCompute
    from worldsize.service.ownership import foreign_reason

    danger = foreign_reason(RunPaths(directory))
    if danger is not None:
        why = f"a password is sent for no run but yours, and of its directory: {danger}"
        return UnreachableCompute(name, why, f"whoever started it can ask: worldsize status {directory}")
    computes = load_config(config_directory(), environ).computes
    fitting = [each for each in computes.values() if each.type == "hpcpack" and has_account_of(each, handle)]
    fitting.sort(key=lambda each: each.name != name)
    if not fitting:
        why = "no compute that is configured here has its head node and account (%.100s, %.100s)"
        hint = f"ask where worldsize.toml has compute {name}, or put it into ~/.config/worldsize/worldsize.toml"
        return UnreachableCompute(name, why % (handle.get("url"), handle.get("user")), hint)
    from worldsize.compute.hpcpack.compute import HpcPackCompute

    return HpcPackCompute(fitting[0], environ)
