"""Slices that the script's own function (`collate_fn`) has put together. This module finds the dimension of the
samples, and the dimensions that are padded to the slice's longest sample."""

from __future__ import annotations

from typing import Any

from ..rank_state import Training, user_place
from .exchange import Exchange
from .parts import OPEN, ROWS, Part, PartTable

_DIMS = 8


def rows_of(local: int, dim: int = 0) -> Part:
    """Return a Part that states that a tensor has the `local` samples of the rank's slice in dimension `dim`."""
    return Part(ROWS, dim, ((int(local), True),))


class CollatedSlices:
    def __init__(self, training: Training, table: PartTable, exchange: Exchange) -> None:
        self._training = training
        self._table = table
        self._exchange = exchange
        self._dims: dict[tuple[int, int], int] = {}

    def note(self, tensors: list[Any], local: int, maker: int, likely: int | None = None) -> None:
        """Record the Parts of the tensors of a rank's slice (`local` samples), which `maker` has made, by comparing the
        shapes on all ranks. All ranks must call this. `likely` is the dimension of the samples, if several are
        possible."""
        mine = [[tensor.dim(), *tensor.shape, *[-1] * _DIMS][: _DIMS + 1] for tensor in tensors]
        counts = self._exchange.gather_numbers([float(len(mine))])
        if any(count != counts[0] for count in counts):
            self._note_open(tensors)
            return
        everyone = self._exchange.gather_numbers([float(size) for shape in mine for size in shape])
        for place, tensor in enumerate(tensors):
            shapes = [row[place * (_DIMS + 1) :][1 : tensor.dim() + 1] for row in everyone]
            self._note_one(tensor, shapes, local, (maker, place), likely)

    def _note_one(
        self, tensor: Any, shapes: list[list[float]], local: int, key: tuple[int, int], likely: int | None
    ) -> None:
        if any(len(shape) != len(shapes[0]) for shape in shapes):
            self._note_open([tensor])
            return
        sizes = [[int(shape[dim]) for shape in shapes] for dim in range(tensor.dim())]
        dims = [dim for dim, each in enumerate(sizes) if all(size == local for size in each)]
        if likely in dims:
            self._dims[key] = likely
        elif len(dims) > 1 and key not in self._dims:
            self._training.show_notice(
                f"{user_place()}: the samples of a batch, {local} in a slice, are assumed to be in dimension "
                f"{dims[0]} of collate_fn's result of shape {tuple(tensor.shape)}"
            )
        elif len(dims) == 1:
            self._dims[key] = dims[0]
        dim = self._dims.get(key, dims[0] if dims else -1)
        if dim not in dims:
            if tensor.dim():
                self._note_open([tensor])
            return
        padded = tuple((each, max(sizes[each])) for each in range(tensor.dim()) if len(set(sizes[each])) > 1)
        self._table.put(tensor, rows_of(local, dim)._replace(padded=padded))

    def _note_open(self, tensors: list[Any]) -> None:
        for tensor in tensors:
            self._table.put(tensor, Part(OPEN))
