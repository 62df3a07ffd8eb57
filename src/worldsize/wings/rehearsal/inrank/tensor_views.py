"""The device of a tensor as scripts see it. Torch's own code sees the CPU, and works with it."""

from __future__ import annotations

from typing import Any, Optional

from . import messages
from .caller import is_called_by_torch
from .device_marks import CPU, device_of, mark_of, place_of
from .torch_module import torch


def _visible_gpu(tensor: Any) -> Optional[int]:
    """Return the index of the virtual GPU on which the caller sees the tensor; None if the caller sees the real device,
    because it is torch's own code or the tensor is not on a GPU."""
    mark = place_of(tensor)
    return None if mark is None or mark == CPU or is_called_by_torch() else mark


def _device(func: Any, args: Any, kwargs: Any) -> Any:
    mark = _visible_gpu(args[0])
    return func(*args) if mark is None else device_of(mark)


def _is_cuda(func: Any, args: Any, kwargs: Any) -> bool:
    return _visible_gpu(args[0]) is not None or func(*args)


def _is_cpu(func: Any, args: Any, kwargs: Any) -> bool:
    return _visible_gpu(args[0]) is None and func(*args)


def _get_device(func: Any, args: Any, kwargs: Any) -> int:
    mark = _visible_gpu(args[0])
    return func(*args, **kwargs) if mark is None else mark


def _repr(func: Any, args: Any, kwargs: Any) -> str:
    text: str = func(*args, **kwargs)
    mark = mark_of(args[0])
    if mark is None or mark == CPU or not text.endswith(")") or "device=" in text:
        return text
    for before in (", dtype=", ", grad_fn=", ", requires_grad="):
        at = text.rfind(before)
        if at > 0 and "]" not in text[at:]:
            return f"{text[:at]}, device='cuda:{mark}'{text[at:]}"
    return f"{text[:-1]}, device='cuda:{mark}')"


def _numpy(func: Any, args: Any, kwargs: Any) -> Any:
    mark = _visible_gpu(args[0])
    if mark is not None:
        raise TypeError(messages.NUMPY % device_of(mark))
    return func(*args, **kwargs)


SPECIAL: dict[Any, Any] = {
    torch.Tensor.device.__get__: _device,
    torch.Tensor.is_cuda.__get__: _is_cuda,
    torch.Tensor.is_cpu.__get__: _is_cpu,
    torch.Tensor.get_device: _get_device,
    torch.get_device: _get_device,
    torch.Tensor.__repr__: _repr,
    torch.Tensor.numpy: _numpy,
    torch.Tensor.__array__: _numpy,
}
