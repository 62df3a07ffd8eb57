"""Random numbers that a script draws for its batch (`torch.randn(len(x), …)`, `torch.randn_like(x)`).

They are drawn for the whole batch from the stream that all ranks share, and each rank takes the rows of its samples.
The numbers are the same as those that a single process draws.
"""

from __future__ import annotations

import sys
from typing import Any, Callable, Sequence, Tuple

import torch

from ..random_streams import RandomStreams, is_compiling
from ..rank_state import Training, replace
from .batch_size import local_number
from .drawn_rows import DrawnRows

Shape = Tuple[int, ...]

_FILLING = ("normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "geometric_", "cauchy_")
_BY_TENSOR = ("multinomial", "bernoulli", "poisson", "_standard_gamma", "_sample_dirichlet")
_NUMPY = ("normal", "uniform", "randint", "random", "random_sample", "standard_normal")


class RandomPatches:
    def __init__(self, training: Training, streams: RandomStreams, rows: DrawnRows) -> None:
        self._training = training
        self._streams = streams
        self._rows = rows

    def install(self) -> None:
        for name in ("randn", "rand"):
            replace(torch, name, self._sizes_given)
        for name in ("randn_like", "rand_like", "randint_like"):
            replace(torch, name, self._tensor_given)
        for name in _FILLING:
            replace(torch.Tensor, name, self._fill)
        replace(torch, "randint", self._size_given)
        replace(torch, "normal", self._normal)
        replace(torch, "randperm", self._alike)
        for name in _BY_TENSOR:
            replace(torch, name, self._by_tensor)

    def install_numpy(self, numpy: Any) -> None:
        for name in _NUMPY:
            replace(numpy, name, self._size_given)
        for name in ("randn", "rand"):
            replace(numpy, name, self._sizes_given)

    def _is_unaffected(self) -> bool:
        """Return whether a draw of random numbers by the script needs no change, because the generators hold the shared
        stream and the script has no slice of a batch."""
        if is_compiling() or self._training.mode != "split" or self._streams.loading:
            return True
        has_slice = self._training.batch.sliced or self._rows.are_known()
        return not (self._streams.own or (has_slice and self._training.active))

    def _draw(self, size: Sequence[int], draw: Callable[[Shape], Any], tensor: Any = None) -> Any:
        """Return `draw(shape)` with random numbers from the stream that all ranks share. If `size`, or `tensor`, is
        that of the rank's slice of a batch, draw for the whole batch and return this rank's rows."""
        with self._streams.shared():
            return self._rows.draw(size, draw, tensor)

    def _alike(self, original: Any, *values: Any, **keywords: Any) -> Any:
        """Run a function that draws random numbers which belong to no batch, the same on all ranks, and return them."""
        if self._is_unaffected():
            return original(*values, **keywords)
        return self._draw((), lambda _: original(*values, **keywords))

    def _by_tensor(self, original: Any, tensor: Any, *values: Any, **keywords: Any) -> Any:
        """Run a torch function that draws random numbers for each sample from the sample's own numbers, as in
        `bernoulli(x)`. Draw for the whole batch and return this rank's rows."""
        if self._is_unaffected():
            return original(tensor, *values, **keywords)
        with self._streams.shared():
            return self._rows.draw_by(tensor, lambda each: original(each, *values, **keywords))

    def _sizes_given(self, original: Any, *size: Any, **keywords: Any) -> Any:
        """Run a random function that gets its sizes as arguments: `randn(8, 3)`, `randn((8, 3))`, `randn(())`. For the
        size of a batch, return this rank's rows."""
        shape = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
        known = size and all(isinstance(part, int) for part in shape)
        if known and not _is_of_numpy(original):
            local = tuple(map(local_number, shape))
            size = (local,) if len(size) == 1 and isinstance(size[0], (tuple, list)) else local
        elif known:
            shape = tuple(map(int, shape))
        if not known or self._is_unaffected() or keywords.get("out") is not None:
            return original(*size, **keywords)
        wants_gradient = keywords.pop("requires_grad", False)
        drawn = self._draw(shape, lambda shape: original(*(shape or size), **keywords))
        return drawn.clone().requires_grad_() if wants_gradient else drawn

    def _size_given(self, original: Any, *values: Any, **keywords: Any) -> Any:
        """Run a random function with a size argument: `randint(0, 9, (8, 3))`, `normal(0, 1, size=(8, 3))`. For the
        size of a batch, return this rank's rows."""
        size = keywords.get("size", values[-1] if values else None)
        if isinstance(size, (tuple, list)) and _is_of_numpy(original):
            size = tuple(map(int, size))
        elif isinstance(size, (tuple, list)):
            local = tuple(map(local_number, size))
            values = values if "size" in keywords else (*values[:-1], local)
            keywords = {**keywords, "size": local} if "size" in keywords else keywords
        if not isinstance(size, (tuple, list)) or self._is_unaffected() or "out" in keywords:
            return original(*values, **keywords)
        if "size" in keywords:
            return self._draw(size, lambda shape: original(*values, **{**keywords, "size": shape}))
        return self._draw(size, lambda shape: original(*values[:-1], shape, **keywords))

    def _tensor_given(self, original: Any, tensor: Any, *values: Any, **keywords: Any) -> Any:
        """Run a random function that gets a tensor of the wanted shape: `randn_like(x)`. If the tensor belongs to a
        batch, draw for the whole batch and return this rank's rows."""
        if self._is_unaffected():
            return original(tensor, *values, **keywords)
        return self._draw(tensor.shape, lambda shape: original(_with_shape(tensor, shape), *values, **keywords), tensor)

    def _fill(self, original: Any, tensor: Any, *values: Any, **keywords: Any) -> Any:
        """Run a method that fills a tensor with random numbers, such as `x.normal_()`. If the tensor belongs to a
        batch, draw for the whole batch and fill the tensor with this rank's rows. Return the tensor."""
        drawn = self._tensor_given(original, tensor, *values, **keywords)
        if self._is_unaffected() or drawn is tensor:
            return drawn
        with torch.no_grad():
            return tensor.copy_(drawn)

    def _normal(self, original: Any, *values: Any, **keywords: Any) -> Any:
        """Run `torch.normal` in any of its forms: `normal(0, 1, size=(8, 3))`, `normal(x, 1.0)`, `normal(mean=x,
        std=y)`. For the size of a batch, return this rank's rows."""
        given = dict(zip(("mean", "std"), values), **keywords)
        if not any(isinstance(value, torch.Tensor) for value in given.values()):
            return self._size_given(original, *values, **keywords)
        if self._is_unaffected() or not given.keys() <= {"mean", "std"}:
            return self._alike(original, *values, **keywords)
        mean, deviation = given.get("mean", 0.0), given.get("std", 1.0)
        with torch.no_grad():
            return mean + deviation * torch.randn_like(mean + deviation)


def _is_of_numpy(draw: Any) -> bool:
    """Return whether a random function draws a NumPy array. If its size is that of the whole batch, the array is for
    the whole batch."""
    numpy = sys.modules.get("numpy.random")
    return numpy is not None and isinstance(getattr(draw, "__self__", None), numpy.RandomState)


def _with_shape(tensor: Any, shape: Shape) -> Any:
    """Return an uninitialised tensor of the shape `shape` that is otherwise like `tensor`, with the same memory order
    of dimensions. Return `tensor` itself if it has that shape."""
    if tuple(map(local_number, tensor.shape)) == shape:
        return tensor
    order = sorted(range(len(shape)), key=tensor.stride, reverse=True)
    made = torch.empty([shape[dim] for dim in order], dtype=tensor.dtype, device=tensor.device)
    return made.permute(sorted(range(len(shape)), key=order.__getitem__))
