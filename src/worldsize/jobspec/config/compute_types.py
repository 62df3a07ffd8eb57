"""The types of computes, and the modules of each."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import NamedTuple

LOCAL = "local"


class ComputeType(NamedTuple):
    """A type of computes. Modules are named below `worldsize`, and may be those of a wing.

    compute   the module with two functions, each of which returns a `worldsize.compute.base.Compute`:
              `open_compute(settings, home, environ)`, which opens a configured compute;
              `compute_of_run(directory, handle, name, environ)`, which opens the one that a run was submitted to,
              by its handle
    settings  the module with the `KEYS` of the type's table in the configuration. It may have
              `complete_settings(values)`, which returns the completed fields of ComputeSettings (without it, a
              `python` is a path of this machine); `key_hint(key)`, which returns the hint about an unknown key, or
              None; and `path_mapping(options)`, which returns how nodes name paths of this machine, as
              ComputeFacts.mapped. "": its keys are in compute_keys.py
    handles   further types that the handles of its runs have
    """

    compute: str
    settings: str = ""
    handles: tuple[str, ...] = ()


COMPUTE_TYPES: Mapping[str, ComputeType] = {
    LOCAL: ComputeType("compute.local.compute"),
    "slurm": ComputeType("compute.slurm.compute", handles=("slurm-step",)),
    "hpcpack": ComputeType("wings.hpcpack.compute", "wings.hpcpack.settings"),
    "azureml": ComputeType("wings.azure.compute", "wings.azure.workspace.settings"),
}
"""The types of worldsize itself. Others come from other packages (compute_keys.py)."""
