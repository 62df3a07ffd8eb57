"""Detection of the random numbers that belong to the slice's samples, among those that a script draws."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch

from ..rank_state import Training
from .batch_size import BatchSize, local_number
from .collated_slices import rows_of
from .mode import BatchFollower
from .parts import ROWS, SELECTED, Part
from .row_layout import own_rows


class DrawnRows:
    def __init__(self, training: Training, follower: BatchFollower) -> None:
        self._training = training
        self._follower = follower

    def are_known(self) -> bool:
        """Return whether the script has any tensor of which it is known that it belongs to a rank's slice of a
        batch."""
        return len(self._follower.table) > 0

    def draw(self, shape: Sequence[int], draw: Callable[[tuple[int, ...]], Any], tensor: Any = None) -> Any:
        """Draw random numbers by `draw(shape)` and return them. `shape` may be that of `tensor`. If it is the shape of
        the rank's slice of a batch, draw for the whole batch and return this rank's rows."""
        own = tuple(map(local_number, shape))
        if tensor is None and sum(type(size) is BatchSize for size in shape) > 1:  # for example all pairs of samples
            return draw(tuple(map(int, shape)))
        part = self._part_of(shape, tensor)
        if part is None:
            return draw(own)
        with torch.no_grad():
            if part.kind == SELECTED:
                return self._draw_selected(own, draw, part)
            sizes = list(own)
            sizes[part.dim] = part.whole_length(self._training.size)
            for dim, size in part.padded:
                sizes[dim] = size
            made = self._own_rows(draw(tuple(sizes)), part)
            for dim, _ in part.padded:
                made = made.narrow(dim, 0, own[dim])
        return self._follower.table.put(made, part) if isinstance(made, torch.Tensor) else made

    def draw_by(self, tensor: Any, draw: Callable[[Any], Any]) -> Any:
        """Draw random numbers by `draw(tensor)`, where `tensor` contains numbers for each sample, such as
        probabilities, and return them. Inside models, the other ranks are not asked for their numbers. Placeholders
        take their positions, so that the same count of random numbers is drawn."""
        part = None if self._follower.is_following() else self._part_of(tensor.shape, tensor)
        if part is None or part.kind != ROWS or part.dim or part.padded or len(part.blocks) > 1:
            return draw(tensor)
        with torch.no_grad():
            sizes = (part.whole_length(self._training.size), *tensor.shape[1:])
            whole = torch.full(sizes, 0.5, dtype=tensor.dtype, device=tensor.device)
            self._own_rows(whole, part).copy_(tensor)
            return self._own_rows(draw(whole), part)

    def _draw_selected(self, own: tuple[int, ...], draw: Callable[[tuple[int, ...]], Any], part: Part) -> Any:
        """Return this rank's random numbers for rows of the batch that a mask has selected, out of those that `draw`
        draws for all ranks. Each rank has a different number of such rows."""
        exchange = self._follower.exchange
        if not exchange.is_possible():
            return draw(own)
        counts = [int(row[0]) for row in exchange.gather_numbers([float(own[part.dim])])]
        sizes = list(own)
        sizes[part.dim] = sum(counts)
        start = sum(counts[: self._training.rank])
        made = draw(tuple(sizes)).narrow(part.dim, start, own[part.dim])
        return self._follower.table.put(made, Part(SELECTED, part.dim))

    def _own_rows(self, whole: Any, part: Part) -> Any:
        """Return this rank's rows of a tensor or an array of random numbers that was drawn for the whole batch."""
        if isinstance(whole, torch.Tensor):
            return own_rows(whole, part, self._training.rank, self._training.size)
        start = self._training.rank * part.length
        return whole[(slice(None),) * part.dim + (slice(start, start + part.length),)]

    def _part_of(self, shape: Sequence[int], tensor: Any) -> Part | None:
        """Return the Part (relation to the whole batch) for random numbers of this shape, which may be that of
        `tensor`; None if they belong to no batch."""
        part = None if tensor is None else self._follower.table.get(tensor)
        if part is not None:
            return part._replace(positions=False) if part.kind in (ROWS, SELECTED) else None
        if not self._follower.is_following():
            return self._part_inside(tuple(map(int, shape)), tensor)
        for dim, size in enumerate(shape):
            if type(size) is BatchSize and int(size) == size.local * self._training.size:
                return rows_of(size.local, dim)
        return None

    def _part_inside(self, sizes: tuple[int, ...], tensor: Any) -> Part | None:
        """Return the Part for random numbers of the shape `sizes` that are drawn inside a model, where only sizes are
        known; None if they belong to no batch. The batch is in the same dimension as in the model's input, or in
        another one of its length, or is joined with the next one."""
        got, batch = self._follower.model_part, self._training.batch
        is_weight = tensor is not None and tensor.is_leaf and tensor.requires_grad
        if is_weight or not sizes or (not batch.sliced if got is None else got.kind != ROWS):
            return None
        rows = got or rows_of(batch.local)
        length, joined = rows.length, got is not None and tensor is not None
        if rows.dim < len(sizes) and sizes[rows.dim] == length:
            return Part(ROWS, rows.dim, rows.blocks)
        if sizes[0] == length:
            return Part(ROWS, 0, rows.blocks)
        if got is not None and len(sizes) > 2 and sizes[1] == length:
            return Part(ROWS, 1, rows.blocks)
        if joined and length > 1 and sizes[0] and sizes[0] % length == 0:
            times = sizes[0] // length
            runs = tuple((each * times, shared) for each, shared in rows.blocks)
            return Part(ROWS, 0, rows.blocks * times if rows.dim else runs)
        dim = sizes.index(length) if joined and length in sizes else None
        return None if dim is None else Part(ROWS, dim, rows.blocks)
