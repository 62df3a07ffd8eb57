"""Reader of GPUs through NVML with nvidia-ml-py (`pynvml`), if the agent's Python has it. No program has to be started.

Any query may be unknown to the driver or to the module. Its answer is then left out.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Callable

from worldsize.common.named_tuple import Any, TypeAlias
from worldsize.wings.checks.agent.gpu import values
from worldsize.wings.checks.agent.gpu.device import Gpu, GpuProcess, GpuReport
from worldsize.wings.checks.agent.gpu.xml_report import used_memory

_RECOVERY_FIELD = 230
_RECOVERY_ACTIONS = (
    "None", "Reset", "Reboot", "Drain P2P", "Drain and Reset", "Recover IMEX Domain", "Bus Reset", "System Reboot",
)  # fmt: skip
_UNCORRECTED, _VOLATILE = 1, 0
_MIB = 1 << 20
_MOST_GPUS = 256

_Ask: TypeAlias = "Callable[..., Any]"
"""A function that queries one GPU by the name of NVML's function. It returns None for a query without an answer."""


def load_nvml() -> Any:
    """Import and return the module `pynvml`; None if it is missing or cannot be loaded."""
    try:
        return __import__("pynvml")
    except Exception:  # noqa: BLE001  # foreign module: after any error, nvidia-smi is queried instead
        return None


def read_nvml(nvml: Any) -> GpuReport | None:
    """Read all GPUs of the node through `nvml`, the module pynvml, and return the GpuReport; None if NVML cannot be
    used, so that nvidia-smi, which prints the reason, is queried instead."""
    try:
        nvml.nvmlInit()
        count = min(int(nvml.nvmlDeviceGetCount()), _MOST_GPUS)
    except Exception:  # noqa: BLE001  # the errors are classes of the module's own
        return None
    gpus, missing = [], []
    for index in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except Exception as error:  # noqa: BLE001  # a lost GPU is reported by an error
            if "permission" not in str(error).lower():
                missing.append(values.plain(f"GPU {index}: {error}"))
            continue
        gpus.append(_gpu(nvml, handle, index))
    driver, cuda = _text(_ask(nvml, "nvmlSystemGetDriverVersion")), _cuda(_ask(nvml, "nvmlSystemGetCudaDriverVersion"))
    return GpuReport("NVML", driver, cuda, tuple(gpus), tuple(missing)) if gpus or missing else None


def _ask(nvml: Any, name: str, *words: Any) -> Any:
    """Call NVML's function `name` with the arguments `words`, or else its second version, and return the result; None
    if neither returns one. Old drivers may lack what the first one calls."""
    for each in (name, f"{name}_v2"):
        try:
            return getattr(nvml, each)(*words)
        except Exception:  # noqa: BLE001  # not known to this GPU, this driver or this version of the module
            continue
    return None


def _gpu(nvml: Any, handle: Any, index: int) -> Gpu:
    def ask(name: str, *words: Any) -> Any:
        return _ask(nvml, name, handle, *words)

    total, used, is_exact = _memory(nvml, ask)
    mig = (ask("nvmlDeviceGetMigMode") or (0,))[0] == 1
    remapped = ask("nvmlDeviceGetRemappedRows") or (0, 0, 0, 0)
    return Gpu(
        number=index,
        model=_text(ask("nvmlDeviceGetName")),
        uuid=_text(ask("nvmlDeviceGetUUID")),
        bus=_text(getattr(ask("nvmlDeviceGetPciInfo"), "busId", "")),
        memory_mib=total,
        used_mib=used,
        is_exact=is_exact,
        mig=mig,
        mig_devices=_mig_devices(ask) if mig else 0,
        processes=_processes(nvml, ask),
        uncorrected=_whole(ask("nvmlDeviceGetTotalEccErrors", _UNCORRECTED, _VOLATILE)),
        pending=bool(remapped[2] or ask("nvmlDeviceGetRetiredPagesPendingStatus")),
        remap_failed=bool(remapped[3]),
        recovery=_recovery(ask),
        throttle=_throttle(ask),
        fault=_fault(nvml, handle),
        width=_whole(ask("nvmlDeviceGetCurrPcieLinkWidth")),
    )


def _fault(nvml: Any, handle: Any) -> str:
    """Return the reason why the GPU of the NVML `handle` does not answer a query that every GPU supports, such as "GPU
    is lost"; "" if it answers."""
    try:
        nvml.nvmlDeviceGetMemoryInfo(handle)
    except Exception as error:  # noqa: BLE001  # the errors are classes of the module's own
        return values.fault_in(str(error))
    return ""


def _memory(nvml: Any, ask: _Ask) -> tuple[int | None, int | None, bool]:
    """Return the total memory of a GPU and its memory in use, in MiB, as NVML reports them, and whether the driver's
    own part is known."""
    version = getattr(nvml, "nvmlMemory_v2", None)
    found = ask("nvmlDeviceGetMemoryInfo", version) if version is not None else None
    found = found or ask("nvmlDeviceGetMemoryInfo")
    sizes = [_whole(getattr(found, name, None)) for name in ("total", "used", "free", "reserved")]
    total, used, free, reserved = (None if size is None else size // _MIB for size in sizes)
    foreign, is_exact = used_memory(total, used, free, reserved)
    return total, foreign, is_exact


def _mig_devices(ask: _Ask) -> int:
    most = min(_whole(ask("nvmlDeviceGetMaxMigDeviceCount")) or 0, 64)
    return sum(ask("nvmlDeviceGetMigDeviceHandleByIndex", index) is not None for index in range(most))


def _processes(nvml: Any, ask: _Ask) -> tuple[GpuProcess, ...]:
    found = []
    for kind, name in (("C", "Compute"), ("G", "Graphics")):
        for each in (ask(f"nvmlDeviceGet{name}RunningProcesses") or ())[:256]:
            used = _whole(getattr(each, "usedGpuMemory", None))
            program = values.program_name(_text(_ask(nvml, "nvmlSystemGetProcessName", each.pid)))
            found.append(GpuProcess(each.pid, kind, program, None if used is None else used // _MIB))
    return tuple(found)


def _recovery(ask: _Ask) -> str:
    found = (ask("nvmlDeviceGetFieldValues", [_RECOVERY_FIELD]) or [None])[0]
    if found is None or getattr(found, "nvmlReturn", 1) != 0:
        return ""
    action = _whole(getattr(getattr(found, "value", None), "uiVal", None))
    return _RECOVERY_ACTIONS[action] if action is not None and action < len(_RECOVERY_ACTIONS) else ""


def _throttle(ask: _Ask) -> int | None:
    names = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
    found = (_whole(ask(name)) for name in names)
    return next((reasons for reasons in found if reasons is not None), None)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else None


def _text(value: Any) -> str:
    """Return `value`, a text that NVML reports, as a str of limited length; "" if it is not a text or means that there
    is no value. Older versions of the module return bytes."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    return values.known(text)[:200] if isinstance(text, str) else ""


def _cuda(version: Any) -> str:
    number = _whole(version)
    return f"{number // 1000}.{number % 1000 // 10}" if number else ""
