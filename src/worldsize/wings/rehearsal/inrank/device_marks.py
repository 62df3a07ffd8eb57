"""The mark on a tensor that contains its virtual device: a GPU's index, CPU if that is known, nothing otherwise.

The mark is an attribute of the Python object. It exists while the tensor does, and is never written to a file
(`reduce_without_mark`).
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from .torch_module import torch

CPU = -1
_NAME = "_worldsize_device"
_FLAG = "_worldsize_pinned"


def mark_of(tensor: Any) -> Optional[int]:
    mark: Optional[int] = getattr(tensor, "__dict__", {}).get(_NAME)
    return mark


PLACES: dict[Any, Callable[[Any], Optional[int]]] = {}
"""The functions that compute the place of a tensor, by kinds of tensors that need no mark."""


def place_of(tensor: Any) -> Optional[int]:
    """Return the virtual device of a tensor, as a GPU's index or CPU: its mark, or without a mark the place that PLACES
    computes for its kind. None if neither is known."""
    mark = mark_of(tensor)
    if mark is None and type(tensor) in PLACES:
        return PLACES[type(tensor)](tensor)
    return mark


def put_mark(tensor: Any, mark: Optional[int]) -> Any:
    """Mark a tensor with its virtual device `mark`, a GPU's index or CPU; None leaves the tensor unchanged. Return the
    tensor."""
    if mark is not None:
        tensor.__dict__[_NAME] = mark
    return tensor


def device_of(mark: int) -> Any:
    return torch.device("cpu") if mark == CPU else torch.device("cuda", mark)


def put_marks(value: Any, mark: int) -> Any:
    """Mark `value`, or every tensor inside it, with the virtual device `mark`. `value` may be a tensor, a module, or a
    list, tuple or dict of these. Return `value`."""
    if isinstance(value, torch.Tensor):
        put_mark(value, mark)
    elif isinstance(value, torch.nn.Module):
        for tensor in [*value.parameters(), *value.buffers()]:
            put_mark(tensor, mark)
    elif isinstance(value, dict):
        for each in value.values():
            put_marks(each, mark)
    elif isinstance(value, (list, tuple)):
        for each in value:
            put_marks(each, mark)
    return value


def is_pinned(tensor: Any) -> bool:
    return bool(tensor.__dict__.get(_FLAG))


def pin(tensor: Any) -> Any:
    tensor.__dict__[_FLAG] = True
    return tensor


def reduce_without_mark(reduce: Any, tensor: Any, protocol: Any) -> Any:
    """Return the result of a tensor's `__reduce_ex__`, whose original is `reduce`, as if the tensor had no mark, so
    that no mark is written to a file."""
    taken = {name: tensor.__dict__.pop(name) for name in (_NAME, _FLAG) if name in tensor.__dict__}
    try:
        return reduce(tensor, protocol)
    finally:
        tensor.__dict__.update(taken)
