"""The resources that this machine reports as a compute: processors, memory and GPUs."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.compute.capabilities import ComputeNode

_PROC_GPUS = "/proc/driver/nvidia/gpus"
_PATIENCE = 10.0


def nodes() -> list[ComputeNode]:
    import socket

    from worldsize.compute.capabilities import ComputeNode

    total, available = _memory()
    models = gpu_models()
    return [
        ComputeNode(
            name=socket.gethostname(),
            state="up",
            cpus=len(os.sched_getaffinity(0)),
            memory=total,
            memory_free=available,
            gpu_type=",".join(dict.fromkeys(models)),
            gpus=len(models),
        )
    ]


def gpu_count() -> int:
    """Return the number of NVIDIA GPUs of this machine, from /proc: no library is loaded to count them. 0 if the driver
    does not report them there."""
    try:
        return len(os.listdir(_PROC_GPUS))
    except OSError:
        return 0


def _memory() -> tuple[int | None, int | None]:
    """Return the total and the available memory of this machine in MiB; None for values that are not known."""
    found = {}
    try:
        with open("/proc/meminfo") as file:
            for line in file:
                name, _, value = line.partition(":")
                found[name] = int(value.split()[0]) >> 10
    except OSError:
        pass
    return found.get("MemTotal"), found.get("MemAvailable")


def gpu_models() -> list[str]:
    """Return the model name of each NVIDIA GPU of this machine, as the driver reports it in /proc or, if that is
    hidden, as nvidia-smi does; none if neither does."""
    models = []
    try:
        for name in sorted(os.listdir(_PROC_GPUS)):
            with open(os.path.join(_PROC_GPUS, name, "information")) as file:
                models += [line.partition(":")[2].strip() for line in file if line.startswith("Model:")]
    except OSError:
        pass
    return models or _nvidia_smi_models()


def _nvidia_smi_models() -> list[str]:
    import subprocess

    argv = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]
