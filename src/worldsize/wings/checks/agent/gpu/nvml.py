"""NVML by nvidia-ml-py (`pynvml`), where the agent's Python has it: no program has to be started.

Each question may be unknown to the driver or to the module: then its answer is left out.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Callable

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.gpu import values
from worldsize.wings.checks.agent.gpu.device import Gpu, GpuProcess, GpuReport
from worldsize.wings.checks.agent.gpu.xml_report import used_memory

_RECOVERY_FIELD = 230
_RECOVERY_ACTIONS = ("None", "Reset", "Reboot", "Drain P2P", "Drain and Reset")
_UNCORRECTED, _VOLATILE = 1, 0
_MIB = 1 << 20
_MOST_GPUS = 256


def load_nvml() -> Any:
    """The module; None where it is missing or cannot be loaded."""
    try:
        return __import__("pynvml")
    except Exception:  # noqa: BLE001  # somebody else's module: whatever it raises, nvidia-smi is asked instead
        return None


def read_nvml(nvml: Any) -> GpuReport | None:
    """What NVML says; None where it cannot be used, so that nvidia-smi, which says why, is asked instead."""
    try:
        nvml.nvmlInit()
        count = min(int(nvml.nvmlDeviceGetCount()), _MOST_GPUS)
    except Exception:  # noqa: BLE001  # the errors are classes of the module's own
        return None
    gpus, missing = [], []
    for index in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:  # noqa: BLE001  # a lost GPU is told by an error
            if "permission" not in str(error).lower():
                missing.append(values.plain(f"GPU {index}: {error}"))
            continue
        gpus.append(_gpu(_Questions(nvml, handle), index))
    driver, cuda = _text(_ask(nvml, "nvmlSystemGetDriverVersion")), _cuda(_ask(nvml, "nvmlSystemGetCudaDriverVersion"))
    return GpuReport("NVML", driver, cuda, tuple(gpus), tuple(missing)) if gpus or missing else None


class _Questions:
    """What is asked of one GPU; None for what is not answered."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self.nvml = nvml
        self._handle = handle

    def ask(self, name: str, *words: Any) -> Any:
        return _ask(self.nvml, name, self._handle, *words)

    def fault(self) -> str:
        """Why the GPU does not answer what every GPU can: "GPU is lost"; "" where it does."""
        try:
            self.nvml.nvmlDeviceGetMemoryInfo(self._handle)
        except Exception as error:  # noqa: BLE001  # the errors are classes of the module's own
            return values.fault_in(str(error))
        return ""


def _ask(nvml: Any, name: str, *words: Any) -> Any:
    question: Callable[..., Any] | None = getattr(nvml, f"{name}_v2", None) or getattr(nvml, name, None)
    if question is None:
        return None
    try:
        return question(*words)
    except Exception:  # noqa: BLE001  # not supported by this GPU, this driver or this version of the module
        return None


def _gpu(gpu: _Questions, index: int) -> Gpu:
    total, used, is_exact = _memory(gpu)
    mig = (gpu.ask("nvmlDeviceGetMigMode") or (0,))[0] == 1
    remapped = gpu.ask("nvmlDeviceGetRemappedRows") or (0, 0, 0, 0)
    return Gpu(
        number=index,
        model=_text(gpu.ask("nvmlDeviceGetName")),
        uuid=_text(gpu.ask("nvmlDeviceGetUUID")),
        bus=_text(getattr(gpu.ask("nvmlDeviceGetPciInfo"), "busId", "")),
        memory_mib=total,
        used_mib=used,
        is_exact=is_exact,
        mig=mig,
        mig_devices=_mig_devices(gpu) if mig else 0,
        processes=_processes(gpu),
        uncorrected=_whole(gpu.ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE)),
        pending=bool(remapped[2] or gpu.ask("nvmlDeviceGetRetiredPagesPendingStatus")),
        remap_failed=bool(remapped[3]),
        recovery=_recovery(gpu),
        throttle=_throttle(gpu),
        fault=gpu.fault(),
        width=_whole(gpu.ask("nvmlDeviceGetCurrPcieLinkWidth")),
    )


def _memory(gpu: _Questions) -> tuple[int | None, int | None, bool]:
    """All of it, what is used, and whether the driver's own part is known; in MiB."""
    version = getattr(gpu.nvml, "nvmlMemory_v2", None)
    found = gpu.ask("nvmlDeviceGetMemoryInfo", version) if version is not None else None
    found = found or gpu.ask("nvmlDeviceGetMemoryInfo")
    sizes = [_whole(getattr(found, name, None)) for name in ("total", "used", "free", "reserved")]
    total, used, free, reserved = (None if size is None else size // _MIB for size in sizes)
    foreign, is_exact = used_memory(total, used, free, reserved)
    return total, foreign, is_exact


def _mig_devices(gpu: _Questions) -> int:
    most = min(_whole(gpu.ask("nvmlDeviceGetMaxMigDeviceCount")) or 0, 64)
    return sum(gpu.ask("nvmlDeviceGetMigDeviceHandleByIndex", index) is not None for index in range(most))


def _processes(gpu: _Questions) -> tuple[GpuProcess, ...]:
    found = []
    for kind, name in (("C", "Compute"), ("G", "Graphics")):
        for each in (gpu.ask(f"nvmlDeviceGet{name}RunningProcesses") or ())[:256]:
            used = _whole(getattr(each, "usedGpuMemory", None))
            program = values.program_name(_text(_ask(gpu.nvml, "nvmlSystemGetProcessName", each.pid)))
            found.append(GpuProcess(each.pid, kind, program, None if used is None else used // _MIB))
    return tuple(found)


def _recovery(gpu: _Questions) -> str:
    found = (gpu.ask("nvmlDeviceGetFieldValues", [_RECOVERY_FIELD]) or [None])[0]
    if found is None or getattr(found, "nvmlReturn", 1) != 0:
        return ""
    action = _whole(getattr(getattr(found, "value", None), "uiVal", None))
    return _RECOVERY_ACTIONS[action] if action is not None and action < len(_RECOVERY_ACTIONS) else ""


def _throttle(gpu: _Questions) -> int | None:
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    found = (_whole(gpu.ask(name)) for name in names)
    return next((reasons for reasons in found if reasons is not None), None)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else None


def _text(value: Any) -> str:
    """Older versions of the module answer in bytes."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return values.known(text)[:200] if isinstance(text, str) else ""


def _cuda(version: Any) -> str:
    number = _whole(version)
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""
