"""The facts of a node's GPUs, independent of the source from which they were read.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections import Counter

from worldsize.common.named_tuple import NamedTuple


class GpuProcess(NamedTuple):
    """A process that uses memory of a GPU. `kind` is "C" (computes), "G" (draws) or "C+G" (both). `mib` is None if the
    driver does not report it, as in a container or under WSL. `name` is its program, without a path and without
    arguments, which may contain secrets."""

    pid: int
    kind: str
    name: str
    mib: int | None


class Gpu(NamedTuple):
    """A GPU. A value that the driver does not report is None, "" or False.

    number       its number, as nvidia-smi counts
    bus          its PCI address, as the driver writes it
    used_mib     memory in use, without the driver's own memory if that is known (`is_exact`)
    mig_devices  the number of parts that it is divided into, if `mig` is set
    uncorrected  the number of ECC errors that could not be corrected since the driver was loaded
    pending      whether pages or rows of its memory wait for a reset to be replaced
    recovery     the action that the driver requests: "None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"
    throttle     bits of reasons for which its clock is lower than it could be (tables/gpu_limits.py)
    fabric       the state of the NVSwitch fabric, as this GPU knows it
    fault        the reason why it does not answer
    width        the number of lanes of its PCIe link
    """

    number: int
    model: str = ""
    uuid: str = ""
    bus: str = ""
    memory_mib: int | None = None
    used_mib: int | None = None
    is_exact: bool = False
    mig: bool = False
    mig_devices: int = 0
    processes: tuple[GpuProcess, ...] = ()
    uncorrected: int | None = None
    pending: bool = False
    remap_failed: bool = False
    recovery: str = ""
    throttle: int | None = None
    fabric: str = ""
    fault: str = ""
    width: int | None = None

    @property
    def units(self) -> int:
        """The number of devices that programs see: one, or the parts that it is divided into."""
        return self.mig_devices if self.mig and self.mig_devices else 1


class GpuReport(NamedTuple):
    """All GPU facts that could be read on a node.

    source   the source: "NVML" or "nvidia-smi"
    missing  the messages about GPUs that do not answer
    failure  the reason why nothing could be read; "" if something was
    """

    source: str = ""
    driver: str = ""
    cuda: str = ""
    gpus: tuple[Gpu, ...] = ()
    missing: tuple[str, ...] = ()
    failure: str = ""


def models_text(gpus: tuple[Gpu, ...] | list[Gpu]) -> str:
    """Return how many GPUs of each model there are, as text: "8 × NVIDIA H100 80GB HBM3"."""
    counts = Counter(gpu.model or "GPU" for gpu in gpus)
    return ", ".join(f"{count} × {model}" for model, count in counts.items())


def gpu_names(gpus: list[Gpu]) -> str:
    """Return the names of GPUs by their numbers, as text: "GPU 3", "GPUs 1, 3"."""
    numbers = ", ".join(str(gpu.number) for gpu in gpus)
    return f"GPU {numbers}" if len(gpus) == 1 else f"GPUs {numbers}"


def gpus_text(count: int) -> str:
    """Format a number of GPUs: "1 GPU", "8 GPUs"."""
    return "1 GPU" if count == 1 else f"{count} GPUs"
