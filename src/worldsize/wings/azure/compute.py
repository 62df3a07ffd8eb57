"""Computes of type azureml: a configuration may have them, and jobs may name them, but none can be opened yet."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.compute.base import Compute, Handle
from worldsize.errors import ConfigError
from worldsize.jobspec.config.compute_types import COMPUTE_TYPES
from worldsize.jobspec.config.config import ComputeSettings

_TYPE = "azureml"


def open_compute(settings: ComputeSettings, home: str, environ: Mapping[str, str]) -> Compute:
    usable = ", ".join(kind for kind in COMPUTE_TYPES if kind != _TYPE)
    what = f"computes of type {_TYPE} cannot be used yet"
    raise ConfigError(what, f"compute.{settings.name}.type", f"this release runs on: {usable}")


def compute_of_run(directory: str, handle: Handle | None, name: str, environ: Mapping[str, str]) -> Compute:
    raise ConfigError(f"the run was submitted to a compute of type {_TYPE}, which this release does not know")
