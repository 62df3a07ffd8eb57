"""The detection of a node's GPUs by their device files, and the environment that selects the GPUs of its ranks.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.common.numbers import parse_digits
from worldsize.plan.plan import Plan

VISIBLE = "CUDA_VISIBLE_DEVICES"
_VIRTUAL = "WORLDSIZE_VIRTUAL_GPUS"


def has_gpus(environ: Mapping[str, str], root: str = "/") -> bool:
    """Return whether there is a device file of a GPU that `program.py` may support: NVIDIA's, also under WSL, or AMD's.
    Return False if the environment defines virtual GPUs."""
    try:
        names = [] if environ.get(_VIRTUAL) else os.listdir(os.path.join(root, "dev"))
    except OSError:
        return False
    return any(name in ("kfd", "dxg") or _is_nvidia(name) for name in names)


def gpu_environment(plan: Plan, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the agent's environment `environ` with the node's GPUs in CUDA_VISIBLE_DEVICES. If the variable is not set
    and each rank gets GPUs of its own from the first `plan.gpus` ones, it is set to these; else `environ` is unchanged.
    """
    if plan.gpus and plan.visible_devices and VISIBLE not in environ:
        return {**environ, VISIBLE: ",".join(map(str, range(plan.gpus)))}
    return environ


def _is_nvidia(name: str) -> bool:
    return name.startswith("nvidia") and parse_digits(name[len("nvidia") :]) is not None
