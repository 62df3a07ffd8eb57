"""The default device of new tensors, if that is a GPU. Without an index it is the GPU that is current when the tensor
is created."""

from __future__ import annotations

import sys
from typing import Any, Optional

from . import device_moves, devices
from .caller import is_called_by_torch
from .torch_module import patch, torch


class _DefaultDevice:
    """The GPU that was passed to torch.set_default_device; None if that is no GPU. It is not checked, and begins
    nothing, until a tensor is created."""

    device: Any = None


def install() -> None:
    patch(torch, "set_default_tensor_type", _set_default_tensor_type)
    patch(torch, "set_default_device", _set_default_device)
    patch(torch, "get_default_device", _get_default_device)


def default_index() -> Optional[int]:
    """Return the index of the virtual GPU on which new tensors are created by default; None for the CPU."""
    device = _DefaultDevice.device
    return None if device is None else devices.valid_index(device.index)


def _set_default_tensor_type(use: Any, kind: Any) -> None:
    """Set the default type of tensors with torch's original function `use`. If `kind` is a type of torch.cuda, use the
    CPU's type of the same name, and create every new tensor on the virtual GPU."""
    plain = device_moves.plain_type(kind)
    use(plain or kind)
    _DefaultDevice.device = torch.device("cuda") if plain else None


def _set_default_device(use: Any, device: Any) -> None:
    if isinstance(device, int) and not isinstance(device, bool):
        device = torch.device("cuda", device)
    is_gpu = device is not None and torch.device(device).type == "cuda"
    _DefaultDevice.device = torch.device(device) if is_gpu else None
    use(None if is_gpu else device)


def _get_default_device(ask: Any) -> Any:
    if is_called_by_torch():
        return ask()
    context: Any = getattr(sys.modules.get("torch.utils._device"), "DeviceContext", ())
    modes = reversed(torch.overrides._get_current_function_mode_stack())
    around = [mode.device for mode in modes if isinstance(mode, context)]
    device = around[0] if around else _DefaultDevice.device
    if device is None or device.type != "cuda":
        return ask()
    return torch.device("cuda", devices.valid_index(device.index))
