"""The shapes that a function's results would have with the whole batch.

The function is run on tensors without data that have the whole batch's sizes. In this way, the batch's dimension is
followed through any function of torch, without a rule for each.
"""

from __future__ import annotations

from typing import Any

import torch

from .batch_size import BatchSize
from .parts import ROWS, SELECTED, PartTable, mapped, tensors_in

SELECTED_LENGTH = 7919
"""A placeholder for the number of rows that a mask has selected. No other dimension has this size by chance."""

_MAX_KNOWN = 20_000
_SIMPLE = (int, bool, str, type(None), torch.dtype, torch.memory_format, torch.layout, type(Ellipsis))
_META = torch.device("meta")


class _Unknown(Exception):
    """The error that nothing is known about an argument, so that the shapes of a function's results cannot be
    inferred."""


class WholeShapes:
    def __init__(self, table: PartTable, ranks: int) -> None:
        self._table = table
        self._ranks = ranks
        self._more = 0
        self._found: dict[Any, Any] = {}

    def padded_dims(self, function: Any, args: Any, kwargs: Any) -> list[set[int]] | None:
        """Return, for each tensor in a torch function's result, the set of dimensions whose size depends on the padded
        length of the batch; None in the same cases as `infer`."""
        wide = self.infer(function, args, kwargs)
        self._more = 1
        try:
            wider = self.infer(function, args, kwargs)
        finally:
            self._more = 0
        if wide is None or wider is None or len(wide) != len(wider):
            return None
        return [{dim for dim, size in enumerate(one) if other[dim] != size} for one, other in zip(wide, wider)]

    def infer(self, function: Any, args: Any, kwargs: Any) -> list[tuple[int, ...]] | None:
        """Return the shapes, in order, that the tensors in a torch function's result would have with the whole batch;
        None if they depend on data, or if the function does not run without data."""
        try:
            key = (function, self._describe(args), self._describe(tuple(sorted(kwargs.items()))))
            found = self._found.get(key, key)
        except (_Unknown, TypeError):
            return None
        if found is key:
            if len(self._found) >= _MAX_KNOWN:
                self._found.clear()
            found = self._found[key] = self._run(function, args, kwargs)
        return found  # type: ignore[no-any-return]

    def _describe(self, value: Any) -> Any:
        kind = type(value)
        if isinstance(value, torch.Tensor):
            return (self._whole_shape(value), value.dtype)
        if kind is BatchSize:
            return ("size", int(value), value.local)
        if kind is float:
            return float
        if kind in (list, tuple, torch.Size):
            return (kind, *map(self._describe, value))
        if kind is slice:
            return ("slice", *map(self._describe, (value.start, value.stop, value.step)))
        if kind is torch.device:
            return "device"
        if kind not in _SIMPLE:
            raise _Unknown
        return (kind, value)

    def _whole_shape(self, tensor: Any) -> tuple[int, ...]:
        shape, part = list(tensor.shape), self._table.get(tensor)
        if part is not None and part.kind == ROWS:
            shape[part.dim] = part.whole_length(self._ranks)
            for dim, size in part.padded:
                shape[dim] = size + self._more
        elif part is not None and part.kind == SELECTED:
            shape[part.dim] = SELECTED_LENGTH
        return tuple(shape)

    def _run(self, function: Any, args: Any, kwargs: Any) -> list[tuple[int, ...]] | None:
        try:
            with torch.no_grad():
                made = function(*mapped(args, self._without_data), **mapped(kwargs, self._without_data))
        except Exception:  # noqa: BLE001  the function itself is called with data afterwards
            return None
        return [tuple(each.shape) for each in tensors_in(made)]

    def _without_data(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.empty(self._whole_shape(value), dtype=value.dtype, device=_META)
        if isinstance(value, torch.device):
            return _META
        return int(value) if type(value) is BatchSize else value
