"""The memory figures of torch.cuda: the sizes of the tensors on a virtual GPU that Python knows, out of 80 GiB.

Memory that only the autograd graph references is not counted. A peak is the highest value that any query has returned.
"""

from __future__ import annotations

import gc
import pickle
from contextlib import nullcontext
from typing import Any

from .. import devices
from ..device_marks import mark_of
from ..torch_module import torch
from .devices import do_nothing

_peaks: dict[int, int] = {}
_BLOCK = 2 * 1024**2


def memory_allocated(device: Any = None) -> int:
    """Return the total bytes of all tensors on a virtual GPU (the current one for None); 0 before CUDA has begun. The
    query does not begin CUDA. Also record the GPU's peak."""
    if not devices.has_begun():
        return 0
    index = devices.valid_device(device)
    storages: dict[int, int] = {}
    with torch._C.DisableTorchFunction():
        for each in gc.get_objects():
            if issubclass(type(each), torch.Tensor) and mark_of(each) == index:
                try:
                    storage = each.untyped_storage()
                    storages[storage.data_ptr()] = storage.nbytes()
                except (RuntimeError, NotImplementedError):
                    continue  # a kind of tensor without its own storage: its parts are counted
    used = sum(storages.values())
    _peaks[index] = max(_peaks.get(index, 0), used)
    return used


def max_memory_allocated(device: Any = None) -> int:
    return max(memory_allocated(device), _peaks.get(devices.index_of(device), 0))


def memory_reserved(device: Any = None) -> int:
    return -(-memory_allocated(device) // _BLOCK) * _BLOCK


def max_memory_reserved(device: Any = None) -> int:
    return -(-max_memory_allocated(device) // _BLOCK) * _BLOCK


def reset_peak_memory_stats(device: Any = None) -> None:
    _peaks.pop(devices.valid_device(device), None)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    devices.valid_device(device)
    return devices.MEMORY - memory_reserved(device), devices.MEMORY


def memory_stats(device: Any = None) -> dict[str, int]:
    if not devices.has_begun():
        return {}
    now, most = memory_allocated(device), max_memory_allocated(device)
    held, most_held = memory_reserved(device), max_memory_reserved(device)
    found = {"num_alloc_retries": 0, "num_ooms": 0, "num_sync_all_streams": 0, "num_device_alloc": 0}
    for pool in ("all", "large_pool", "small_pool"):
        for what, current, peak in (
            ("allocated_bytes", now, most), ("active_bytes", now, most), ("requested_bytes", now, most),
            ("reserved_bytes", held, most_held), ("inactive_split_bytes", held - now, most_held - most),
        ):  # fmt: skip
            found[f"{what}.{pool}.current"] = current
            found[f"{what}.{pool}.peak"] = peak
            found[f"{what}.{pool}.allocated"] = peak
            found[f"{what}.{pool}.freed"] = peak - current
    return found


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in memory_stats(device).items():
        *folders, last = name.split(".")
        place = nested
        for folder in folders:
            place = place.setdefault(folder, {})
        place[last] = value
    return nested


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    devices.valid_device(device)
    stats = memory_stats(device)
    rows = [
        f"| {name:<16} | {stats[key + '.all.current']:14} | {stats[key + '.all.peak']:14} |"
        for name, key in (("Allocated memory", "allocated_bytes"), ("Reserved memory", "reserved_bytes"))
    ]
    head = f"| worldsize rehearsal: virtual GPU {devices.valid_device(device)}, bytes"
    return "\n".join([head, f"| {'Metric':<16} | {'Cur Usage':>14} | {'Peak Usage':>14} |", *rows])


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    devices.valid_device(device)
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")


def _snapshot(*args: Any, **kwargs: Any) -> dict[str, list[Any]]:
    return {"segments": [], "device_traces": []}


def _dump_snapshot(filename: str = "dump_snapshot.pickle", *args: Any, **kwargs: Any) -> None:
    """Write an empty memory snapshot as a pickle file, so that code that reads the file afterwards works."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)


FUNCTIONS: dict[str, Any] = {
    **{each.__name__: each for each in (
        memory_allocated, max_memory_allocated, memory_reserved, max_memory_reserved, reset_peak_memory_stats,
        mem_get_info, memory_stats, memory_stats_as_nested_dict, memory_summary, set_per_process_memory_fraction,
    )},
    "_snapshot": _snapshot,
    "_dump_snapshot": _dump_snapshot,
    "memory_cached": memory_reserved,
    "max_memory_cached": max_memory_reserved,
    "reset_max_memory_allocated": reset_peak_memory_stats,
    "reset_max_memory_cached": reset_peak_memory_stats,
    "get_allocator_backend": lambda: "native",
    "get_per_process_memory_fraction": lambda device=None: 1.0,
    "memory_snapshot": lambda *args, **kwargs: [],
    "host_memory_stats": dict,
    "host_memory_stats_as_nested_dict": dict,
    **dict.fromkeys(("reset_peak_host_memory_stats", "reset_accumulated_host_memory_stats"), do_nothing),
    "device_memory_used": memory_reserved,
    "caching_allocator_enable": do_nothing,
    "caching_allocator_disabled": nullcontext,
    **dict.fromkeys(("empty_cache", "reset_accumulated_memory_stats", "_record_memory_history"), do_nothing),
}  # fmt: skip
"""The functions by their names in torch.cuda and torch.cuda.memory."""
