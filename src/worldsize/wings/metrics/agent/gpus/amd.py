"""A reader for AMD's GPUs that uses the files of the driver amdgpu and needs no library.

Kernel: Documentation/gpu/amdgpu. Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

from worldsize.agent.machine.node_files import names_in, text_of
from worldsize.common.numbers import parse_digits
from worldsize.wings.metrics.agent.gpus.nvml import Facts, Reading

_AMD = "0x1002"
_MOST_GPUS = 64


class AmdGpu:
    """A GPU of AMD, given by the directory of its device. `nodes` is the directory of the device files."""

    def __init__(self, directory: str, nodes: str = "/dev/dri") -> None:
        self._directory = directory
        self._nodes = nodes

    def facts(self) -> Facts:
        uuid, model = self._text("unique_id"), self._text("product_name")
        return Facts(uuid, model or "AMD GPU", self._number("mem_info_vram_total"), False)

    def read(self) -> Reading:
        """Return the current use of the GPU: its busy share, used memory in bytes, power in watts and memory traffic,
        each None if it is not known."""
        percent = self._number("gpu_busy_percent")
        return Reading(
            None if percent is None else min(1.0, percent / 100),
            self._number("mem_info_vram_used"),
            self._power(),
            self._traffic(),
        )

    def processes(self) -> list[int] | None:
        """Return None: the driver shows the processes of a GPU only to root."""
        return None

    def _traffic(self) -> float | None:
        """Return the share of the time in which the GPU's memory is read or written at present, from the driver's file
        mem_busy_percent; not tried on a GPU. None for a GPU that this process may not open: containers show the files
        of all GPUs, but allow access to some only."""
        render = [name for name in names_in(os.path.join(self._directory, "drm"))[:8] if name.startswith("renderD")]
        if not all(os.access(os.path.join(self._nodes, name), os.R_OK | os.W_OK) for name in render):
            return None
        percent = self._number("mem_busy_percent")
        return None if percent is None else min(1.0, percent / 100)

    def _power(self) -> float | None:
        """Return the power of the GPU in watts. hwmon counts microwatts. Older drivers have an average, newer ones the
        current value. None if there is neither."""
        at = os.path.join(self._directory, "hwmon")
        for name in names_in(at)[:8]:
            for file in ("power1_average", "power1_input"):
                found = self._number(f"hwmon/{name}/{file}")
                if found is not None:
                    return found / 1e6
        return None

    def _number(self, name: str) -> int | None:
        return parse_digits(self._text(name))

    def _text(self, name: str) -> str:
        return text_of(os.path.join(self._directory, name), 256)[:80]


def amd_gpus(root: str = "/") -> list[AmdGpu]:
    """Return AMD's GPUs of this node that report how busy they are, in the order of their addresses on the bus; 64 at
    most. `root` is the root of the file system."""
    at = os.path.join(root, "sys/class/drm")
    cards = [name for name in names_in(at) if name.startswith("card") and name[len("card") :].isdigit()]
    places = {os.path.realpath(os.path.join(at, name, "device")) for name in cards}
    found = [place for place in sorted(places) if text_of(f"{place}/vendor", 64) == _AMD]
    nodes = os.path.join(root, "dev/dri")
    return [AmdGpu(place, nodes) for place in found if os.path.exists(f"{place}/gpu_busy_percent")][:_MOST_GPUS]
