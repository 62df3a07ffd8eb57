"""Whether a cluster's srun starts tasks in containers: NVIDIA's plug-in Pyxis adds options to it."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.compute.slurm.commands import call
from worldsize.errors import WorldsizeError

_OPTION = "--container-image"


def has_pyxis(environ: Mapping[str, str]) -> bool:
    try:
        return _OPTION in call(["srun", "--help"], environ=environ).out
    except WorldsizeError:
        return False
