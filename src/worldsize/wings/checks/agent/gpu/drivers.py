"""The GPUs of a node according to its kernel's files, without a program: those of NVIDIA, and signs of others.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re

from worldsize.agent.machine.node_files import names_in, text_of
from worldsize.common.numbers import parse_digits
from worldsize.wings.checks.agent.node_context import NodeContext

_OTHERS = {
    "kfd": "an AMD GPU",
    "dxg": "a GPU under WSL",
    **dict.fromkeys(("nvhost-gpu", "nvmap", "nvgpu"), "a GPU of NVIDIA Jetson"),
    **dict.fromkeys(("accel", "neuron0", "hl0", "davinci0"), "an accelerator"),
}
"""Device files, and the devices that they belong to."""


def nvidia_device_files(context: NodeContext) -> list[str]:
    """Return the names of the device files of NVIDIA's GPUs in the node's /dev, such as `nvidia0`."""
    names = names_in(context.path("dev"))
    return [name for name in names if name.startswith("nvidia") and parse_digits(name[len("nvidia") :]) is not None]


def driver_models(context: NodeContext) -> list[str]:
    """Return the models of all GPUs that NVIDIA's driver has found on the machine, including those that the job may not
    use."""
    at = context.path("proc", "driver", "nvidia", "gpus")
    return [_model(text_of(os.path.join(at, name, "information"))) for name in names_in(at)[:256]]


def has_nvidia(context: NodeContext) -> bool:
    """Return whether the node has any sign of a GPU of NVIDIA, or of its driver."""
    driver = context.path("proc", "driver", "nvidia", "version")
    return bool(nvidia_device_files(context)) or os.path.exists(driver)


def count_amd_gpus(context: NodeContext) -> int:
    """Return the number of AMD's GPUs of the node that this process may use. The kernel hides those of other jobs'
    control groups. CPUs are in the same list, but without SIMD units."""
    at = context.path("sys", "class", "kfd", "kfd", "topology", "nodes")
    texts = (text_of(os.path.join(at, name, "properties")) for name in names_in(at)[:256])
    return sum(re.search(r"(?m)^simd_count [1-9]", text) is not None for text in texts)


def has_graphics(context: NodeContext) -> bool:
    """Return whether the node has any device that can render: a GPU of Intel or AMD, or a chip that only drives
    screens."""
    return os.path.exists(context.path("dev", "dri", "renderD128"))


def other_devices(context: NodeContext) -> str:
    """Return in words the first kind of GPU or accelerator of the node whose devices this check does not count, such as
    "an AMD GPU"; "" if there is none."""
    found = (words for name, words in _OTHERS.items() if os.path.exists(context.path("dev", name)))
    return next(found, "")


def _model(text: str) -> str:
    lines = (line.partition(":") for line in text.splitlines())
    return next((value.strip()[:80] for name, _, value in lines if name.strip() == "Model"), "")
