"""What is known of a node's GPUs, wherever it was read.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections import Counter

from worldsize.common.named_tuple import NamedTuple


class GpuProcess(NamedTuple):
    """A process that has memory of a GPU. kind: "C" computes, "G" draws, "C+G" both. mib: None where it is not told,
    as in a container or under WSL. name: its program, without a path and without arguments, which may hold secrets."""

    pid: int
    kind: str
    name: str
    mib: int | None


class Gpu(NamedTuple):
    """One GPU. What the driver does not tell is None, "" or False.

    number       as nvidia-smi counts them
    bus          its PCI address, as the driver writes it
    used_mib     memory in use, without what the driver keeps for itself where that is told (`is_exact`)
    mig_devices  the parts that it is divided into, where `mig` says that it is
    uncorrected  ECC uncorrectable errors since the driver was loaded
    pending      whether pages or rows of its memory wait for a reset to be replaced
    recovery     what the driver asks for: "None", "Reset", "Reboot", "Drain P2P", "Drain and Reset"
    throttle     bits of reasons for which its clock is lower than it could be (tables/gpu_limits.py)
    fabric       the state of the NVSwitch fabric, as this GPU knows it
    fault        why it does not answer
    width        lanes of its PCIe link
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
        """The devices that it is for programs: itself, or the parts that it is divided into."""
        return self.mig_devices if self.mig and self.mig_devices else 1


class GpuReport(NamedTuple):
    """All that could be read on a node.

    source   what was asked: "NVML" or "nvidia-smi"
    missing  what was said of GPUs that do not answer
    failure  why nothing could be read; "" where something was
    """

    source: str = ""
    driver: str = ""
    cuda: str = ""
    gpus: tuple[Gpu, ...] = ()
    missing: tuple[str, ...] = ()
    failure: str = ""


def models_text(gpus: tuple[Gpu, ...] | list[Gpu]) -> str:
    """Return the GPUs by their models: "8 × NVIDIA H100 80GB HBM3"."""
    counts = Counter(gpu.model or "GPU" for gpu in gpus)
    return ", ".join(f"{count} × {model}" for model, count in counts.items())


def gpu_names(gpus: list[Gpu]) -> str:
    """Return the GPUs by their numbers: "GPU 3", "GPUs 1, 3"."""
    numbers = ", ".join(str(gpu.number) for gpu in gpus)
    return f"GPU {numbers}" if len(gpus) == 1 else f"GPUs {numbers}"


def gpus_text(count: int) -> str:
    """ "1 GPU", "8 GPUs"."""
    return "1 GPU" if count == 1 else f"{count} GPUs"
