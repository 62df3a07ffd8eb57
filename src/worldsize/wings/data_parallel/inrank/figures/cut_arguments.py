"""Cutter for arguments of the whole batch's size in calls whose other arguments belong to the slice.

A script has such tensors if it computes with numbers that it took out of a batch, or if it writes the batch's size as a
number.
"""

from __future__ import annotations

from typing import Any

import torch

from ..rank_state import Training
from .batch_size import BatchSize
from .call import Call
from .parts import ROWS, Part, PartTable
from .row_layout import own_rows

_LABELLED = frozenset(("cross_entropy", "nll_loss", "multi_margin_loss", "_pack_padded_sequence"))
"""Functions that combine rows of numbers with one number for each row."""


class Cutter:
    def __init__(self, training: Training, table: PartTable) -> None:
        self._training = training
        self._table = table

    def cut_arguments(self, call: Call) -> Call:
        """Return the call of a torch function with some tensors replaced by this rank's rows of them: those that have
        as many rows as the whole batch, and whose other dimensions all fit a tensor of the slice, or that are the one
        number for each row of a function in `_LABELLED`."""
        batch = self._training.asked
        if not batch.sliced or len(call.parts) == len(call.tensors):
            return call
        beside = [each for each in call.tensors if self._is_of_slice(each)]

        def cut(each: Any) -> Any:
            if not self._is_free(each) or each.shape[0] != batch.total:
                return each
            together = any(_stand_together(each, other) for other in beside)
            return self.cut(each) if together or (each.dim() == 1 and call.name in _LABELLED) else each

        return call.changed(cut) if beside else call

    def cut(self, whole: Any) -> Any:
        """Return this rank's rows of a tensor that has as many rows as the current whole batch, and record them as rows
        of the slice."""
        part = Part(ROWS, 0, ((self._training.asked.local, True),))
        return self._table.put(own_rows(whole, part, self._training.rank, self._training.size), part)

    def note_slices(self, call: Call) -> bool:
        """Record those tensors among a call's arguments as rows of the slice that are not followed, have as many rows
        as the slice, and whose other dimensions all fit a tensor of the slice. Code that is not followed made them from
        a slice. Return whether there are any."""
        batch = self._training.asked
        if not batch.sliced or batch.local == 1:
            return False
        beside = [each for each in call.tensors if self._is_of_slice(each)]
        found = [each for each in call.tensors if self._is_free(each) and each.shape[0] == batch.local]
        found = [each for each in found if any(_stand_together(each, other) for other in beside)]
        for each in found:
            self._table.put(each, Part(ROWS, 0, ((batch.local, True),)))
        return bool(found)

    def with_own_sizes(self, call: Call, rows: Any, part: Part) -> Call:
        """Return the call of a view such as `x.view(64, -1)` with a constant that is the whole batch's size replaced by
        the size of the slice. `rows` is the argument that contains the slice's rows, and `part` is its Part."""
        whole, own = part.whole_length(self._training.size), int(rows.shape[part.dim])
        given = call.args[1:2]
        sizes = list(given[0]) if given and isinstance(given[0], (list, tuple)) else list(call.args[1:])
        if part.dim or not sizes or type(sizes[0]) is not int or sizes[0] != whole:
            return call
        changed = (call.args[0], BatchSize(whole, own), *sizes[1:])
        return Call(self._table, call.name, call.in_place, call.function, changed, call.kwargs)

    def _is_free(self, value: Any) -> bool:
        """Return whether a value is a tensor whose relation to the batch is not known, and which is not a weight."""
        is_tensor = isinstance(value, torch.Tensor) and value not in self._table
        return is_tensor and not value.requires_grad and value.dim() > 0

    def _is_of_slice(self, tensor: Any) -> bool:
        part, local = self._table.get(tensor), self._training.asked.local
        return part is not None and part.kind == ROWS and part.dim == 0 and tensor.shape[0] == local


def _stand_together(tensor: Any, rows: Any) -> bool:
    """Return whether a tensor matches the tensor `rows` of the slice row by row: all dimensions except the first are
    equal or can be broadcast."""
    if rows.dim() != tensor.dim():
        return False
    return all(one in (other, 1) or other == 1 for one, other in zip(tensor.shape[1:], rows.shape[1:]))
