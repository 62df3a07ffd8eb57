"""The functions of torch.cuda about devices: which GPUs exist, and which one is current."""

from __future__ import annotations

from typing import Any

from .. import devices, messages
from ..caller import is_called_by_torch
from ..device_marks import CPU, mark_of


def is_available() -> bool:
    if is_called_by_torch():
        return False
    devices.ask_runtime()
    return devices.count() > 0


def device_count() -> int:
    return 0 if is_called_by_torch() else devices.count()


def current_device() -> int:
    devices.begin_cuda()
    return devices.current_index()


def set_device(device: Any) -> None:
    if not (isinstance(device, int) and device < 0):
        devices.make_current(devices.index_of(device, optional=False))


class device:
    """The context manager torch.cuda.device: makes another GPU current inside a `with`."""

    def __init__(self, device: Any) -> None:
        if isinstance(device, int) and device < 0:
            self.idx = -1
        else:
            self.idx = current_device() if device is None else devices.index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = devices.current_index()
        devices.make_current(self.idx)

    def __exit__(self, *_: object) -> None:
        devices.make_current(self.prev_idx)


class device_of(device):
    def __init__(self, obj: Any) -> None:
        mark = mark_of(obj)
        super().__init__(-1 if mark is None or mark == CPU else mark)


_PROPERTIES = {
    "name": devices.NAME,
    "major": devices.CAPABILITY[0],
    "minor": devices.CAPABILITY[1],
    "total_memory": devices.MEMORY,
    "multi_processor_count": devices.PROCESSORS,
    "is_integrated": 0,
    "is_multi_gpu_board": 0,
    "max_threads_per_multi_processor": 2048,
    "max_threads_per_block": 1024,
    "shared_memory_per_block": 49152,
    "shared_memory_per_block_optin": 166912,
    "shared_memory_per_multiprocessor": 167936,
    "regs_per_multiprocessor": 65536,
    "warp_size": 32,
    "L2_cache_size": 40 * 1024**2,
    "clock_rate": 1410000,
    "memory_clock_rate": 1593000,
    "memory_bus_width": 5120,
    "gcnArchName": devices.NAME,
    "pci_device_id": 0,
    "pci_domain_id": 0,
}
"""The properties that are the same for all devices."""


class DeviceProperties:
    """The result of torch.cuda.get_device_properties."""

    def __init__(self, index: int) -> None:
        vars(self).update(_PROPERTIES, pci_bus_id=index, uuid=f"{index:08d}-0000-0000-0000-000000000000")

    def __repr__(self) -> str:
        return (
            f"_CudaDeviceProperties(name='{devices.NAME}', major={devices.CAPABILITY[0]}, "
            f"minor={devices.CAPABILITY[1]}, total_memory={devices.MEMORY // 1024**2}MB, "
            f"multi_processor_count={devices.PROCESSORS})"
        )


def get_device_properties(device: Any = None) -> DeviceProperties:
    devices.begin_cuda()
    index = devices.index_of(device)
    if not 0 <= index < devices.count():
        raise AssertionError(messages.DEVICE_ID)
    return DeviceProperties(devices.visible_gpus()[index])


def get_device_name(device: Any = None) -> str:
    get_device_properties(device)
    return devices.NAME


def get_device_capability(device: Any = None) -> tuple[int, int]:
    get_device_properties(device)
    return devices.CAPABILITY


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    for each in (device, peer_device):
        if not 0 <= devices.index_of(each) < devices.count():
            raise AssertionError(messages.DEVICE_ID if each is device else "Invalid peer device id")
    return True


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether bfloat16 works on the virtual GPUs: true if there is a GPU. In that case CUDA begins, as in
    torch.cuda.is_bf16_supported."""
    if devices.count():
        devices.begin_cuda()
    return devices.count() > 0


def synchronize(device: Any = None) -> None:
    devices.valid_device(device)


def do_nothing(*args: Any, **kwargs: Any) -> None:
    return None


def return_zero(*args: Any, **kwargs: Any) -> int:
    devices.begin_cuda()
    return 0


FUNCTIONS: dict[str, Any] = {
    **{each.__name__: each for each in (
        is_available, device_count, current_device, set_device, device, device_of, get_device_properties,
        get_device_name, get_device_capability, can_device_access_peer, synchronize,
    )},
    **dict.fromkeys(("ipc_collect", "set_sync_debug_mode", "_sleep", "_lazy_init"), do_nothing),
    **dict.fromkeys(("utilization", "memory_usage", "temperature", "power_draw", "clock_rate"), return_zero),
    **dict.fromkeys(("is_bf16_supported", "is_tf32_supported"), is_bf16_supported),
    "init": devices.begin_cuda,
    "is_initialized": devices.has_begun,
    "is_current_stream_capturing": lambda: False,
    "get_sync_debug_mode": lambda: 0,
    "get_arch_list": lambda: ["sm_80"],
    "get_gencode_flags": lambda: "-gencode compute=compute_80,code=sm_80",
    "list_gpu_processes": lambda device=None: f"GPU:{devices.valid_device(device)}\nno processes are running",
    "_is_in_bad_fork": devices.is_in_bad_fork,
    "_get_device_index": lambda device, optional=False, allow_cpu=False: devices.index_of(device, optional),
}  # fmt: skip
"""The functions by their names in torch.cuda."""
