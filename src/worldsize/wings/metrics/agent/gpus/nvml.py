"""The functions of NVML that samples need, called by ctypes. A value that the driver or a GPU does not report is None.

The library may hang if a driver hangs, so only a process that no other process waits for may call it (`program.py`).

NVML API Reference Guide, https://docs.nvidia.com/deploy/nvml-api/. Standard library only: travels inside agent.pyz
(Python >= 3.8).
"""

from __future__ import annotations

import ctypes
import time

from worldsize.common.named_tuple import Any, NamedTuple

_LIBRARIES = ("libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1")
_BUSY_SAMPLES, _TRAFFIC_SAMPLES = 1, 2
_MOST_GPUS, _MOST_SAMPLES, _MOST_PROCESSES, _TEXT = 64, 4096, 128, 96


class _Memory(ctypes.Structure):
    _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]


class _Memory2(ctypes.Structure):
    """The newer form of `_Memory`, whose `used` does not contain the memory that the driver reserves."""

    _fields_ = [
        ("version", ctypes.c_uint),
        *((name, ctypes.c_ulonglong) for name in ("total", "reserved", "free", "used")),
    ]


class _Rates(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Sample(ctypes.Structure):
    """A sample of the driver. The value is a union of 8 bytes, which for utilisation contains an unsigned int. The time
    is in microseconds."""

    _fields_ = [("time", ctypes.c_ulonglong), ("value", ctypes.c_uint), ("rest", ctypes.c_uint)]


class _Process(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    ]


class Facts(NamedTuple):
    """The constant properties of a GPU. `mig` is whether the GPU is divided (MIG)."""

    uuid: str
    model: str
    memory: int | None
    mig: bool


class Reading(NamedTuple):
    """A reading of a GPU. A value is None if it is not known.

    busy     the share of the time in which a kernel ran
    memory   the used memory in bytes
    power    the power in watts
    traffic  the share of the time in which its memory was read or written
    """

    busy: float | None
    memory: int | None
    power: float | None
    traffic: float | None = None


class Nvml:
    """The initialised NVML library. `count` is the number of GPUs that this process sees. Raise OSError if the library
    does not exist or does not work."""

    def __init__(self) -> None:
        self._library = _load()
        if not (self._call("nvmlInit_v2") or self._call("nvmlInit")):
            raise OSError("NVML does not start")
        count = ctypes.c_uint()
        if not self._call("nvmlDeviceGetCount_v2", ctypes.byref(count)):
            raise OSError("NVML does not count GPUs")
        self.count = min(count.value, _MOST_GPUS)

    def device(self, index: int) -> Device | None:
        """Return NVIDIA's GPU with the number `index` in NVML; None if the GPU does not answer."""
        handle = ctypes.c_void_p()
        if self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle)):
            return Device(self._call, handle)
        return None

    def _call(self, name: str, *words: Any) -> bool:
        """Call the function `name` of the NVML library with the arguments `words`; return whether it exists and has
        succeeded."""
        function = getattr(self._library, name, None)
        return function is not None and function(*words) == 0


class Device:
    """A GPU of NVIDIA."""

    def __init__(self, call: Any, handle: Any) -> None:
        self._call, self._handle = call, handle
        self._seen = {_BUSY_SAMPLES: 0, _TRAFFIC_SAMPLES: 0}
        self._energy: tuple[float, int] | None = None

    def facts(self) -> Facts:
        """Return the constant properties of the GPU: UUID, model, memory and whether it is divided (MIG). The first
        reading by `read` covers the time from this call on."""
        mode, pending = ctypes.c_uint(), ctypes.c_uint()
        mig = self._ask("nvmlDeviceGetMigMode", mode, pending) and mode.value == 1
        memory = self._memory()
        for kind in self._seen:
            self._sampled(kind)
        self._mean_power()
        return Facts(self._text("nvmlDeviceGetUUID"), self._text("nvmlDeviceGetName"), memory and memory[0], mig)

    def read(self) -> Reading:
        """Return the use of the GPU (busy share, memory, power, memory traffic) in the time since the last reading; if
        the driver keeps no history, at the current moment."""
        busy, traffic = self._sampled(_BUSY_SAMPLES), self._sampled(_TRAFFIC_SAMPLES)
        power, memory = self._mean_power(), self._memory()
        rates = _Rates()
        if (busy is None or traffic is None) and self._ask("nvmlDeviceGetUtilizationRates", rates):
            busy = rates.gpu / 100 if busy is None else busy
            traffic = rates.memory / 100 if traffic is None else traffic
        if power is None:
            milliwatts = ctypes.c_uint()
            power = milliwatts.value / 1000 if self._ask("nvmlDeviceGetPowerUsage", milliwatts) else None
        return Reading(_share(busy), memory and memory[1], power, _share(traffic))

    def processes(self) -> list[int] | None:
        """Return the process numbers, as in the initial PID namespace, of the processes that compute on the GPU; None
        if the driver cannot list them."""
        count, found = ctypes.c_uint(_MOST_PROCESSES), (_Process * _MOST_PROCESSES)()
        if not self._ask("nvmlDeviceGetComputeRunningProcesses_v3", count, found):
            return None
        return [each.pid for each in found[: count.value]]

    def _ask(self, name: str, *values: Any) -> bool:
        return bool(self._call(name, self._handle, *map(ctypes.byref, values)))

    def _text(self, name: str) -> str:
        text = ctypes.create_string_buffer(_TEXT)
        if not self._call(name, self._handle, text, ctypes.c_uint(_TEXT)):
            return ""
        return "".join(each for each in text.value.decode("utf-8", "replace") if each.isprintable())

    def _memory(self) -> tuple[int, int] | None:
        """Return the total and the used memory of the GPU in bytes; None if they are not known."""
        newer = _Memory2(version=ctypes.sizeof(_Memory2) | 2 << 24)
        if self._ask("nvmlDeviceGetMemoryInfo_v2", newer):
            return newer.total, newer.used
        older = _Memory()
        return (older.total, older.used) if self._ask("nvmlDeviceGetMemoryInfo", older) else None

    def _sampled(self, what: int) -> float | None:
        """Return the mean of the driver's own utilisation samples since the last call, as a share; None if there are
        none. `what` selects the kernels' (_BUSY_SAMPLES) or the memory's (_TRAFFIC_SAMPLES) utilisation. The driver
        takes about six samples a second and keeps those of about 20 seconds."""
        kind, count, seen = ctypes.c_int(), ctypes.c_uint(), self._seen[what]
        words = self._handle, ctypes.c_int(what), ctypes.c_ulonglong(seen), ctypes.byref(kind)
        if not self._call("nvmlDeviceGetSamples", *words, ctypes.byref(count), None) or not count.value:
            return None
        count = ctypes.c_uint(min(count.value, _MOST_SAMPLES))
        samples = (_Sample * count.value)()
        if not self._call("nvmlDeviceGetSamples", *words, ctypes.byref(count), samples):
            return None
        newer = [each for each in samples[: min(count.value, len(samples))] if each.time > seen]
        self._seen[what] = max([each.time for each in newer], default=seen)
        return sum(each.value for each in newer) / 100 / len(newer) if newer else None

    def _mean_power(self) -> float | None:
        """Return the mean power of the GPU in watts since the last call, from the energy that the GPU has counted. None
        for the first call, for a call within 0.1 s of the last one, and if the GPU does not count energy."""
        millijoules = ctypes.c_ulonglong()
        now = time.monotonic()
        before = self._energy
        self._energy = (
            (now, millijoules.value) if self._ask("nvmlDeviceGetTotalEnergyConsumption", millijoules) else None
        )
        if before is None or self._energy is None or now - before[0] < 0.1 or millijoules.value < before[1]:
            return None
        return (millijoules.value - before[1]) / 1000 / (now - before[0])


def _share(value: float | None) -> float | None:
    return None if value is None else min(1.0, value)


def _load() -> Any:
    for name in _LIBRARIES:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            refused = error
    raise refused
