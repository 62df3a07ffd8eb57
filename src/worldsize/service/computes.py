"""From a compute's name to the compute."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.compute.base import Compute, Handle
from worldsize.errors import ConfigError
from worldsize.spec.config import Config


def choose_compute(config: Config, asked: str | None, in_job: str | None) -> str:
    """The name to use: the command line's, else the job's, else the configured default. NotFound for an unknown one."""
    name = (asked or in_job or config.default_compute).removeprefix("azureml:")
    where = "--compute" if asked else "compute" if in_job else config.default_place
    return config.compute(name, where).name


def open_compute(config: Config, name: str, environ: Mapping[str, str]) -> Compute:
    """ConfigError for a type that this release cannot use."""
    settings = config.compute(name)
    if settings.type == "local":
        from worldsize.compute.local import LocalCompute

        return LocalCompute(name, environ, settings.gpus_per_node)
    raise ConfigError(
        "computes of type %s cannot be used yet" % settings.type,
        "compute.%s.type" % name,
        "this release runs on: local",
    )


def compute_of_handle(handle: Handle | None, name: str, environ: Mapping[str, str]) -> Compute:
    """The compute that a run was submitted to, from the run's own directory: no configuration is needed."""
    kind = handle["type"] if handle else "local"
    if kind == "local":
        from worldsize.compute.local import LocalCompute

        return LocalCompute(name, environ)
    raise ConfigError("the run was submitted to a compute of type %s, which this release does not know" % kind)
