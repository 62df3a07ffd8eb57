"""Slices for a rank: of a batch of any structure (tensors, arrays, lists, mappings, named tuples of them), and of the
indices that a sampler draws."""

from __future__ import annotations

from typing import Any, Iterator

import torch


def size_of(data: Any, dim: int = 0) -> int | None:
    """Return the number of samples in a batch, which is the size of dimension `dim` in all its tensors; None if they do
    not agree."""
    sizes = set(_sizes(data, dim))
    return sizes.pop() if len(sizes) == 1 else None


def _sizes(data: Any, dim: int) -> Iterator[int]:
    if _is_array(data):
        if data.ndim > dim:
            yield int(data.shape[dim])
    elif isinstance(data, (dict, list, tuple)):
        for value in data.values() if isinstance(data, dict) else data:
            yield from _sizes(value, dim)


def slice_of(data: Any, total: int, start: int, count: int, dim: int = 0) -> Any:
    """Return the `count` samples from `start` on of a batch `data` with `total` samples, in the same structure. Parts
    of the structure that do not have `total` samples stay unchanged."""
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


def rank_batches(loader: Any, batches: Iterator[Any], rank: int, size: int) -> Iterator[Any]:
    """Yield the lists of sample indices of the batches of one rank (`rank` of `size`) under the mode `scale`. Each has
    the loader's batch size. The indices of the sampler are divided like those of a DistributedSampler whose epoch is
    set. Nothing is drawn before the first list is requested.

    The batches of a custom batch sampler are not divided: of each `size` batches, each rank gets one. The remainder at
    the end is left out, since not every rank would get a batch of it.
    """
    whole = loader.batch_sampler
    if type(whole) is not torch.utils.data.BatchSampler:
        yield from (each[rank] for each in zip(*[batches] * size))
        return
    drawn = list(whole.sampler)
    share = torch.utils.data.DistributedSampler(drawn, size, rank, shuffle=False, drop_last=whole.drop_last)
    own = [drawn[place] for place in share]
    yield from torch.utils.data.BatchSampler(own, whole.batch_size, whole.drop_last)
