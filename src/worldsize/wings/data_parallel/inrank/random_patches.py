"""Noise that a script draws for its batch: `torch.randn(len(x), …)`, `torch.randn_like(x)`.

A single process would draw it for the whole batch. So the whole batch's noise is drawn from the stream that all ranks
share, and each rank takes the rows of its samples: what is drawn is what a single process draws.
"""

from __future__ import annotations

from .rank_state import replace
from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from .random_streams import RandomStreams
    from .rank_state import Training

_SIZED = ("randn", "rand")
_LIKE = ("randn_like", "rand_like", "randint_like")
_FILLING = ("normal_", "uniform_", "random_", "bernoulli_", "exponential_", "log_normal_", "geometric_", "cauchy_")
_NUMPY = ("normal", "uniform", "randint", "random", "random_sample", "standard_normal")


class RandomPatches:
    def __init__(self, training: Training, streams: RandomStreams) -> None:
        self._training = training
        self._streams = streams

    def install(self) -> None:
        for name in _SIZED:
            replace(torch, name, self._make_sized)
        for name in _LIKE:
            replace(torch, name, self._make_like)
        for name in ("randint", "randperm", "normal"):
            replace(torch, name, getattr(self, "_" + name))
        for name in _FILLING:
            replace(torch.Tensor, name, self._make_filling)

    def install_numpy(self, numpy: Any) -> None:
        for name in _NUMPY:
            replace(numpy, name, self._make_numpy)
        for name in ("randn", "rand"):
            replace(numpy, name, self._make_numpy_sized)

    def _is_unaffected(self) -> bool:
        """Whether the generators hold the shared stream, and the script has no slice: nothing is to be done."""
        if is_compiling() or self._training.mode != "split" or self._streams.loading:
            return True
        return not (self._streams.own or (self._training.batch.sliced and self._training.active))

    def _is_own_stream(self) -> bool:
        """Whether the generators hold the rank's own stream where the shared one is meant."""
        return self._streams.own and not self._is_unaffected()

    def _draw_shared(self, draw: Callable[[], Any]) -> Any:
        own = self._streams.own
        self._streams.use(False)
        try:
            return draw()
        finally:
            self._streams.use(own)

    def _rows(self, count: int) -> slice | None:
        """Which rows of the whole batch's noise are ours, where `count` is our slice's."""
        batch, rank = self._training.batch, self._training.rank
        if not batch.sliced or count != batch.local:
            return None
        return slice(rank * count, (rank + 1) * count)

    def _draw_rows(self, shape: tuple[int, ...], draw: Callable[[tuple[int, ...]], Any]) -> Any:
        rows = self._rows(shape[0]) if shape else None
        if rows is None:
            return self._draw_shared(lambda: draw(shape))
        whole = self._draw_shared(lambda: _draw_without_grad(draw, (self._training.batch.total, *shape[1:])))
        return whole[rows]

    def _make_sized(self, original: Any) -> Any:
        def patched_draw(*size: Any, **keywords: Any) -> Any:
            shape = _shape(size)
            if shape is None or self._is_unaffected() or keywords.get("out") is not None or "size" in keywords:
                return original(*size, **keywords)
            wants = keywords.pop("requires_grad", False)
            drawn = self._draw_rows(shape, lambda shape: original(shape, **keywords))
            return drawn.clone().requires_grad_() if wants else drawn.contiguous()

        return patched_draw

    def _make_like(self, original: Any) -> Any:
        def like(tensor: Any, *values: Any, **keywords: Any) -> Any:
            if self._is_unaffected() or not tensor.dim():
                return original(tensor, *values, **keywords)
            return self._draw_rows(
                tuple(tensor.shape), lambda shape: original(_with_shape(tensor, shape), *values, **keywords)
            ).contiguous()

        return like

    def _randint(self, original: Any) -> Any:
        def randint(*values: Any, **keywords: Any) -> Any:
            if self._is_unaffected() or not values or not isinstance(values[-1], (tuple, list)) or "out" in keywords:
                if self._is_own_stream():
                    return self._draw_shared(lambda: original(*values, **keywords))
                return original(*values, **keywords)
            return self._draw_rows(
                tuple(values[-1]), lambda shape: original(*values[:-1], shape, **keywords)
            ).contiguous()

        return randint

    def _randperm(self, original: Any) -> Any:
        def randperm(*values: Any, **keywords: Any) -> Any:
            if not self._is_own_stream():
                return original(*values, **keywords)
            return self._draw_shared(lambda: original(*values, **keywords))

        return randperm

    def _normal(self, original: Any) -> Any:
        def normal(*values: Any, **keywords: Any) -> Any:
            tensors = [value for value in (*values, *keywords.values()) if isinstance(value, torch.Tensor)]
            if self._is_unaffected() or "out" in keywords:
                return original(*values, **keywords)
            size = values[2] if len(values) > 2 else keywords.get("size")
            if not tensors and isinstance(size, (tuple, list)):
                given = {name: value for name, value in keywords.items() if name != "size"}
                return self._draw_rows(tuple(size), lambda shape: original(*values[:2], size=shape, **given))
            if len(tensors) == 2 and len(values) == 2 and not keywords and values[0].shape == values[1].shape:
                mean, std = values
                zeros = torch.zeros_like(mean.detach())
                drawn = self._draw_rows(
                    tuple(mean.shape),
                    lambda shape: original(_with_shape(zeros, shape), torch.ones_like(_with_shape(zeros, shape))),
                )
                return mean.detach() + std.detach() * drawn
            return self._draw_shared(lambda: original(*values, **keywords))

        return normal

    def _make_filling(self, original: Any) -> Any:
        def patched_fill(tensor: Any, *values: Any, **keywords: Any) -> Any:
            if self._is_unaffected() or not tensor.dim():
                return original(tensor, *values, **keywords)
            if self._rows(tensor.shape[0]) is None:
                return self._draw_shared(lambda: original(tensor, *values, **keywords))
            drawn = self._draw_rows(
                tuple(tensor.shape), lambda shape: original(_with_shape(tensor.detach(), shape), *values, **keywords)
            )
            with torch.no_grad():
                return tensor.copy_(drawn)

        return patched_fill

    def _make_numpy(self, original: Any) -> Any:
        def patched_draw(*values: Any, **keywords: Any) -> Any:
            size = keywords.get("size", values[-1] if values else None)
            rows = self._rows(size[0]) if isinstance(size, tuple) and size else None
            if size is None or rows is None or self._is_unaffected():
                return original(*values, **keywords)
            whole = (self._training.batch.total, *size[1:])
            if "size" in keywords:
                return original(*values, **{**keywords, "size": whole})[rows]
            return original(*values[:-1], whole, **keywords)[rows]

        return patched_draw

    def _make_numpy_sized(self, original: Any) -> Any:
        def patched_draw(*size: int) -> Any:
            rows = self._rows(size[0]) if size else None
            if rows is None or self._is_unaffected():
                return original(*size)
            return original(self._training.batch.total, *size[1:])[rows]

        return patched_draw


def _draw_without_grad(draw: Callable[[tuple[int, ...]], Any], shape: tuple[int, ...]) -> Any:
    with torch.no_grad():
        return draw(shape)


def _shape(size: tuple[Any, ...]) -> tuple[int, ...] | None:
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    return tuple(size) if size and all(isinstance(part, int) for part in size) else None


def _with_shape(tensor: Any, shape: tuple[int, ...]) -> Any:
    """Room for `shape`, otherwise as `tensor`: its own storage where the shape is its own."""
    return tensor if tuple(tensor.shape) == shape else torch.empty(shape, dtype=tensor.dtype, device=tensor.device)


_is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


def is_compiling() -> bool:
    return bool(_is_compiling())
