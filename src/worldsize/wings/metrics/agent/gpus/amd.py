"""AMD's GPUs, by the files of the driver amdgpu: no library is needed.

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
    """One GPU, by the directory of its device. `nodes`: where the files of devices are."""

    def __init__(self, directory: str, nodes: str = "/dev/dri") -> None:
        self._directory = directory
        self._nodes = nodes

    def facts(self) -> Facts:
        uuid, model = self._text("unique_id"), self._text("product_name")
        return Facts(uuid, model or "AMD GPU", self._number("mem_info_vram_total"), False)

    def read(self) -> Reading:
        """The GPU as it is now."""
        percent = self._number("gpu_busy_percent")
        return Reading(
            None if percent is None else min(1.0, percent / 100),
            self._number("mem_info_vram_used"),
            self._power(),
            self._traffic(),
        )

    def processes(self) -> list[int] | None:
        """None: the driver tells of its processes as root alone."""
        return None

    def _traffic(self) -> float | None:
        """As it is now (read in the kernel's pages; not tried on a GPU). None for one that this process may not open:
        containers show the files of all GPUs, and give some."""
        render = [name for name in names_in(os.path.join(self._directory, "drm"))[:8] if name.startswith("renderD")]
        if not all(os.access(os.path.join(self._nodes, name), os.R_OK | os.W_OK) for name in render):
            return None
        percent = self._number("mem_busy_percent")
        return None if percent is None else min(1.0, percent / 100)

    def _power(self) -> float | None:
        """hwmon counts microwatts; older drivers have an average, newer ones what it is now."""
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
    """Return the GPUs that tell how busy they are, in the order of their addresses on the bus."""
    at = os.path.join(root, "sys/class/drm")
    cards = [name for name in names_in(at) if name.startswith("card") and name[len("card") :].isdigit()]
    places = {os.path.realpath(os.path.join(at, name, "device")) for name in cards}
    found = [place for place in sorted(places) if text_of(f"{place}/vendor", 64) == _AMD]
    nodes = os.path.join(root, "dev/dri")
    return [AmdGpu(place, nodes) for place in found if os.path.exists(f"{place}/gpu_busy_percent")][:_MOST_GPUS]
