"""A part of a batch, whatever it is made of: tensors, arrays, lists, mappings, named tuples of them."""

from __future__ import annotations

from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator


def size_of(data: Any, dim: int = 0) -> int | None:
    """How many samples a batch has: what that dimension is in all its tensors; None where they do not agree."""
    sizes = set(_sizes(data, dim))
    return sizes.pop() if len(sizes) == 1 else None


def _sizes(data: Any, dim: int) -> Iterator[int]:
    if _is_array(data):
        if data.ndim > dim:
            yield int(data.shape[dim])
    elif isinstance(data, dict):
        for value in data.values():
            yield from _sizes(value, dim)
    elif isinstance(data, (list, tuple)):
        for value in data:
            yield from _sizes(value, dim)


def slice_of(data: Any, total: int, start: int, count: int, dim: int = 0) -> Any:
    """The samples from `start`, so many; what does not have `total` of them stays as it is."""
    if _is_array(data):
        rows = (slice(None),) * dim + (slice(start, start + count),)
        return data[rows] if data.ndim > dim and data.shape[dim] == total else data
    if isinstance(data, dict):
        parts = {key: slice_of(value, total, start, count, dim) for key, value in data.items()}
        try:
            return type(data)(parts)
        except TypeError:
            return parts
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(slice_of(value, total, start, count, dim) for value in data))
    if isinstance(data, (list, tuple)):
        if len(data) == total and not any(map(_is_array, data)):
            return data[start : start + count]
        return type(data)(slice_of(value, total, start, count, dim) for value in data)
    return data


def _is_array(data: Any) -> bool:
    return isinstance(data, torch.Tensor) or (hasattr(data, "ndim") and hasattr(data, "shape"))
