"""The functions of torch.accelerator: those of torch.cuda under other names. Scripts see an accelerator; torch's own
code sees that there is none."""

from __future__ import annotations

from functools import partial
from typing import Any

from .. import devices
from ..caller import is_called_by_torch
from ..torch_module import patch, torch
from . import devices as cuda_devices
from . import memory, streams
from .substitutes import make_substitute


class device_index:
    """The context manager torch.accelerator.device_index: makes another GPU current inside a `with`. None changes
    nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = device
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx is not None:
            devices.begin_cuda()
            self.prev_idx = devices.current_index()
            devices.make_current(self.idx)

    def __exit__(self, *_: object) -> None:
        if self.idx is not None:
            devices.make_current(self.prev_idx)


def current_accelerator(check_available: bool = False) -> Any:
    return torch.device("cuda") if devices.count() or not check_available else None


def synchronize(device: Any = None) -> None:
    if devices.has_begun():
        devices.valid_device(device)


def get_device_capability(device: Any = None) -> dict[str, Any]:
    devices.valid_device(device)
    return {"supported_dtypes": {each for each in vars(torch).values() if isinstance(each, torch.dtype)}}


_FUNCTIONS: dict[str, Any] = {
    **memory.FUNCTIONS,
    "is_available": cuda_devices.is_available,
    "device_count": cuda_devices.device_count,
    "current_accelerator": current_accelerator,
    "get_device_capability": get_device_capability,
    "synchronize": synchronize,
    "current_stream": streams.current_stream,
    "set_stream": streams.set_stream,
    **dict.fromkeys(("current_device_index", "current_device_idx"), cuda_devices.current_device),
    **dict.fromkeys(("set_device_index", "set_device_idx"), cuda_devices.set_device),
    "get_memory_info": memory.mem_get_info,
    "memory_stats": memory.memory_stats,
    "empty_host_cache": cuda_devices.do_nothing,
}
"""The functions by their names in torch.accelerator."""


def install() -> None:
    module: Any = getattr(torch, "accelerator", None)
    for name, virtual in _FUNCTIONS.items():
        patch(module, name, partial(_answer_scripts, virtual), getattr(module, "memory", None))
    if hasattr(module, "device_index"):
        module.device_index = device_index
    patch(torch, "get_device_module", _get_device_module)
    for name, kind in (("Stream", streams.Stream), ("Event", streams.Event)):
        original = getattr(torch, name, None)
        if isinstance(original, type):
            setattr(torch, name, make_substitute(original, partial(_make_for_device, original, kind), (original, kind)))


def _answer_scripts(virtual: Any, truth: Any, *args: Any, **kwargs: Any) -> Any:
    return truth(*args, **kwargs) if is_called_by_torch() else virtual(*args, **kwargs)


def _get_device_module(find: Any, device: Any = None) -> Any:
    return torch.cuda if device is None and not is_called_by_torch() else find(device)


def _make_for_device(original: Any, kind: Any, device: Any = None, **words: Any) -> Any:
    """Create a torch.Stream or torch.Event, whose classes name no backend. For a script, the result is the CUDA class
    `kind`, unless `device` is not a GPU; otherwise it is one of torch's own class `original`."""
    is_of_gpu = device is None or isinstance(device, int) or str(device).startswith("cuda")
    if is_of_gpu and not is_called_by_torch():
        return kind(device=device, **words)
    return original(**words) if device is None else original(device, **words)
