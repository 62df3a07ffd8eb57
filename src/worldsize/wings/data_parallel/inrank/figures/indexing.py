"""Indexing of a rank's tensors, `tensor[...]`, with indices that refer to the whole batch.

Positions in a batch are those of the whole batch, like sizes. If an index applies to the batch's dimension, the
elements are taken from the whole batch. Only masks, the positions of all samples in their order, and whole runs of
samples, such as one of two joined slices, stay within the slice.
"""

from __future__ import annotations

from typing import Any

import torch

from ..rank_state import Training
from .call import Call
from .exchange import Exchange
from .parts import OPEN, ROWS, SELECTED, WHOLE, Part, PartTable, mapped, tensors_in
from .row_layout import covered_blocks
from .tensor_rules import TensorRules
from .whole_batch import WholeBatch

_WHOLE = slice(None)


class Indexing:
    def __init__(
        self, training: Training, table: PartTable, exchange: Exchange, whole: WholeBatch, rules: TensorRules
    ) -> None:
        self._ranks = training.size
        self._table = table
        self._exchange = exchange
        self._whole = whole
        self._rules = rules

    def get(self, function: Any, tensor: Any, index: Any) -> Any:
        part = self._table.get(tensor)
        if part is None or part.kind not in (ROWS, SELECTED):
            return self._rules.run("getitem" if part is None else "__getitem__", False, function, (tensor, index), {})
        items, place = _expanded(tensor, index, part.dim)
        along = items[place] if place is not None else _WHOLE
        if isinstance(along, slice) and along == _WHOLE:
            return self._rules.run("getitem", False, function, (tensor, tuple(items)), {})
        found = self._within_slice(function, tensor, part, items, place or 0) if part.kind == ROWS else None
        return self._taken_out(function, tensor, items, along) if found is None else found

    def _within_slice(self, function: Any, tensor: Any, part: Part, items: list[Any], place: int) -> Any:
        """Return the elements of the rank's own slice that a mask, the positions of all samples, or whole runs of
        samples select; None for another index along the batch's dimension."""
        along = items[place]
        if isinstance(along, slice):
            return self._runs(function, tensor, part, items, place)
        own = self._table.get(along) if isinstance(along, torch.Tensor) else None
        if own is None or own.kind != ROWS:
            return None
        if along.dtype in (torch.bool, torch.uint8):
            plain = all(each == _WHOLE for each in items[:place] + items[place + 1 :])
            if own.dim or not plain or not part.is_even or (tensor.requires_grad and torch.is_grad_enabled()):
                return None
            return self._table.put(function(tensor, tuple(items)), Part(SELECTED, place))
        if not own.positions or own.blocks != part.blocks:
            return None
        here = torch.arange(along.shape[0], device=along.device, dtype=along.dtype)
        result = function(tensor, tuple(here if each is along else each for each in items))
        dim = _dim_of_advanced(items)
        if result.dim() <= dim or result.shape[dim] != tensor.shape[part.dim]:
            return None
        return self._table.put(result, Part(ROWS, dim, part.blocks))

    def _runs(self, function: Any, tensor: Any, part: Part, items: list[Any], place: int) -> Any:
        along = items[place]
        length = part.whole_length(self._ranks)
        start, stop, step = along.indices(length)
        found = covered_blocks(part, start, stop, self._ranks) if step == 1 else None
        if found is None or sum(size * (self._ranks if shared else 1) for size, shared in found[1]) != stop - start:
            return None
        first, blocks = found
        own = slice(first, first + sum(size for size, _ in blocks))
        taken = tensor.narrow(part.dim, own.start, own.stop - own.start)
        self._table.put(taken, Part(ROWS, part.dim, blocks))
        rest = [_WHOLE if at == place else each for at, each in enumerate(items)]
        return self._rules.run("getitem", False, function, (taken, tuple(rest)), {})

    def _taken_out(self, function: Any, tensor: Any, items: list[Any], along: Any) -> Any:
        """Return the elements of a tensor that an index selects from the whole batch, by positions in the whole
        batch."""
        call = Call(self._table, "getitem", False, function, (tensor, tuple(items)), {})
        own = self._table.get(along) if isinstance(along, torch.Tensor) else None
        is_mask = own is not None and along.dtype in (torch.bool, torch.uint8)
        if own is None or own.kind != ROWS or is_mask or call.has_gradient or not self._exchange.is_possible():
            return self._whole.run(call)
        whole = self._whole.make(tensor)
        result = function(whole, tuple(items))
        dim = _dim_of_advanced(items)
        if result.dim() > dim and result.shape[dim] == along.shape[0]:
            return self._table.put(result, Part(ROWS, dim, own.blocks))
        return self._whole.run(call)

    def set(self, function: Any, tensor: Any, index: Any, value: Any) -> Any:
        """Execute the script's `tensor[index] = value`, where positions in a batch are those of the whole batch, and
        keep only this rank's rows of the result."""
        part = self._table.get(tensor)
        known = any(each in self._table for each in tensors_in((index, value)))
        if part is None and not known:
            return function(tensor, index, value)
        if part is not None and part.kind in (ROWS, SELECTED) and self._is_within(tensor, index, part):
            return self._set_within(function, tensor, index, value, part)
        if not self._exchange.is_possible():
            function(tensor, index, value)
            self._table.put(tensor, Part(OPEN))
            return None
        if part is None or part.kind == WHOLE:
            function(tensor, self._whole.make_in(index), self._whole.make_in(value))
            return None
        whole = self._whole.make(tensor).detach().clone()
        function(whole, self._whole.make_in(index), self._whole.make_in(value))
        with torch.no_grad():
            if part.kind == ROWS:
                tensor.copy_(self._whole.own_rows(whole, part))
            else:
                tensor.copy_(whole)
                self._table.drop(tensor)
        return None

    def _is_within(self, tensor: Any, index: Any, part: Part) -> bool:
        """Return whether an index along the batch's dimension stays within the rank's slice: it selects all samples,
        those of a mask of the slice, or all positions."""
        items, place = _expanded(tensor, index, part.dim)
        along = items[place] if place is not None else _WHOLE
        if isinstance(along, slice):
            return along == _WHOLE
        own = self._table.get(along) if isinstance(along, torch.Tensor) else None
        return own is not None and own.kind == ROWS and (own.positions or along.dtype in (torch.bool, torch.uint8))

    def _set_within(self, function: Any, tensor: Any, index: Any, value: Any, part: Part) -> Any:
        items, place = _expanded(tensor, index, part.dim)
        along = items[place] if place is not None else _WHOLE
        own = self._table.get(along) if isinstance(along, torch.Tensor) else None
        if isinstance(along, torch.Tensor) and own is not None and own.positions:
            items[place or 0] = torch.arange(along.shape[0], device=along.device)
        return function(tensor, tuple(items), mapped(value, self._rules.resolved))


def _expanded(tensor: Any, index: Any, dim: int) -> tuple[list[Any], int | None]:
    """Return a list of the parts of an index of `tensor`, with the ellipsis expanded, and the position in this list of
    the part that applies to the dimension `dim`; None if no part does."""
    items = list(index) if isinstance(index, tuple) else [index]
    if isinstance(index, list) and any(isinstance(each, (slice, torch.Tensor, type(None))) for each in index):
        items = list(index)
    used = sum(_dims_of(each) for each in items if each is not Ellipsis)
    if not any(each is Ellipsis for each in items):
        items.append(Ellipsis)
    at = next(place for place, each in enumerate(items) if each is Ellipsis)
    items[at : at + 1] = [_WHOLE] * (tensor.dim() - used)
    seen = 0
    for place, each in enumerate(items):
        width = _dims_of(each)
        if width and seen <= dim < seen + width:
            return items, place
        seen += width
    return items, None


def _dims_of(item: Any) -> int:
    """Return the number of dimensions of a tensor that a part of an index covers: 0 for None, True and False, those of
    the mask for a mask, 1 otherwise."""
    if item is None or item is True or item is False:
        return 0
    if isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8):
        return int(item.dim())
    return 1


def _dim_of_advanced(items: list[Any]) -> int:
    """Return the dimension that the index tensors among the parts of an index produce in the result: that of the first
    one, or 0 if other parts separate the tensors and numbers."""
    places = [place for place, each in enumerate(items) if isinstance(each, (torch.Tensor, list))]
    numbers = [place for place, each in enumerate(items) if isinstance(each, int) and not isinstance(each, bool)]
    together = sorted(places + numbers)
    if together and together[-1] - together[0] + 1 != len(together):
        return 0
    return sum(1 for each in items[: together[0]] if isinstance(each, slice) or each is None) if together else 0
