"""Mixed precision: autocast regions for `cuda` become regions for the CPU, in bfloat16, since float16 is slow or
missing there."""

from __future__ import annotations

from typing import Any

from . import devices
from .caller import is_called_by_torch
from .torch_module import patch, torch


def install() -> None:
    patch(torch.amp.autocast, "__init__", _begin_autocast)
    patch(torch, "is_autocast_enabled", _is_autocast_enabled)
    for name in ("get_autocast_dtype", "get_autocast_gpu_dtype"):
        patch(torch, name, _get_dtype)
    for name in ("custom_fwd", "custom_bwd"):
        patch(torch.amp, name, _decorate, torch.amp.autocast_mode)
    if hasattr(torch.amp, "GradScaler"):
        patch(torch.amp.GradScaler, "__init__", _begin_scaler)


def _is_cuda(device_type: Any) -> bool:
    return str(device_type).partition(":")[0] == "cuda"


def _begin_autocast(begin: Any, self: Any, device_type: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
    if isinstance(device_type, str) and _is_cuda(device_type):
        device_type = "cpu"
        if dtype == torch.bfloat16 and kwargs.get("enabled", args[0] if args else True) and devices.count():
            devices.begin_cuda()  # torch queries the GPU for bfloat16 here
        dtype = torch.bfloat16 if dtype in (None, torch.float16) else dtype
    begin(self, device_type, dtype, *args, **kwargs)


def _is_autocast_enabled(ask: Any, *args: Any, **kwargs: Any) -> bool:
    """Return whether autocast is enabled, as `torch.is_autocast_enabled`, whose original is `ask`. If a script asks
    about the virtual GPU, the answer is that for the CPU."""
    device = args[0] if args else kwargs.get("device_type", "cuda")
    if device == "cuda" and not is_called_by_torch():
        return bool(torch.is_autocast_cpu_enabled())
    return bool(ask(*args, **kwargs))


def _get_dtype(ask: Any, device_type: Any = "cuda") -> Any:
    """Return the dtype that autocast uses for `device_type`, as `torch.get_autocast_dtype`; `ask` is the original
    function. For the virtual GPU, a script inside an autocast region gets the dtype of the CPU."""
    if _is_cuda(device_type) and torch.is_autocast_cpu_enabled() and not is_called_by_torch():
        return torch.get_autocast_cpu_dtype()
    return ask(device_type) if ask.__name__ == "get_autocast_dtype" else ask()


def _decorate(decorate: Any, function: Any = None, *, device_type: str, **words: Any) -> Any:
    """Decorate the forward or backward step of an autograd function, as `torch.amp.custom_fwd` and `custom_bwd`, with
    the CPU as its device type if it names `cuda`. `decorate` is torch's original decorator."""
    for name in ("fwd", "bwd"):
        function = words.pop(name, function)
    return decorate(function, device_type="cpu" if _is_cuda(device_type) else device_type, **words)


def _begin_scaler(begin: Any, self: Any, device: Any = "cuda", *args: Any, **kwargs: Any) -> None:
    """Initialise a `torch.amp.GradScaler` for `cuda` on the CPU instead; `begin` is the original `__init__`. It scales
    and checks for infinities, but finds none: bfloat16 has the range of float32."""
    begin(self, "cpu" if _is_cuda(device) else device, *args, **kwargs)
