"""The positions of the batch's samples in a tensor that a function has made from others."""

from __future__ import annotations

from typing import Any

import torch

from .parts import ROWS, Blocks, Part, tensors_in


def scaled_dims(made: Any, whole: Any) -> list[int]:
    """Return the dimensions in which the tensor `made`, computed from the rank's slice, has other sizes than with the
    whole batch (`whole` is that shape). Return [0, 0] if the numbers of dimensions differ."""
    if len(whole) != made.dim():
        return [0, 0]
    return [dim for dim, (own, size) in enumerate(zip(made.shape, whole)) if own != size]


def batch_dim(dims: list[int], made: Any, whole: Any, part: Part, ranks: int) -> int:
    """Return the batch's dimension of the tensor `made` among the dimensions `dims`, which have other sizes with the
    whole batch. The others are padded."""
    for dim in dims:
        if made.shape[dim] * part.whole_length(ranks) == whole[dim] * part.length:
            return dim
    return dims[0]


def blocks_of(call: Any, rows: Any, part: Part, made: Any, dim: int) -> Blocks:
    """Return the runs (length, whether divided among the ranks) that the rows of a torch function's result `made` form
    in dimension `dim`. `rows` is the argument that they come from, and `part` is its Part."""
    if call.name in ("cat", "concat", "concatenate"):
        sources = list(tensors_in(call.args[0] if call.args else call.kwargs.get("tensors")))
        parts = [call.table.get(each) for each in sources]
        along = all(each is None or (each.kind == ROWS and each.dim == dim) for each in parts)
        if along and sum(each.shape[dim] for each in sources) == made.shape[dim]:
            runs = [
                each.blocks if each is not None else ((int(one.shape[dim]), False),)
                for one, each in zip(sources, parts)
            ]
            return tuple(run for each in runs for run in each)
    return _blocks_of_view(part, rows, made, dim)


def _blocks_of_view(part: Part, rows: Any, made: Any, dim: int) -> Blocks:
    """Return the runs (length, whether divided among the ranks) of the rows in a view `made` of the tensor `rows` that
    has joined the batch's dimension with others, or split it again."""
    before, after = part.length, int(made.shape[dim])
    outer, inner = product(rows.shape[: part.dim]), product(made.shape[:dim])
    if before == after or not (before and outer and inner):
        return part.blocks
    if outer == inner:
        return tuple((length * after // before, shared) for length, shared in part.blocks)
    if outer > inner:
        times = outer // inner
        return tuple((length * after // (before * times), shared) for length, shared in part.blocks) * times
    chosen = part.blocks[: max(len(part.blocks) * outer // inner, 1)]
    length = sum(each for each, _ in chosen)
    return tuple((each * after // length, shared) for each, shared in chosen) if length else chosen


def own_rows(whole: Any, part: Part, rank: int, ranks: int, factor: float = 1) -> Any:
    """Return the rows of the rank `rank` of `ranks` in a tensor of the whole batch, as `part` describes them. Runs of
    rows that are divided among the ranks are multiplied by `factor`."""
    pieces, start = [], 0
    for length, shared in part.blocks:
        piece = whole.narrow(part.dim, start + rank * length if shared else start, length)
        pieces.append(piece * factor if shared and factor != 1 else piece)
        start += length * ranks if shared else length
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces, part.dim)


def covered_blocks(part: Part, start: int, stop: int, ranks: int) -> tuple[int, Blocks] | None:
    """Return a pair: the position in the rank's slice of the first run of rows, and the runs of rows from `start` to
    `stop` in the whole batch; None if these are not whole runs."""
    place, own, found, first = 0, 0, [], None
    for length, shared in part.blocks:
        size = length * ranks if shared else length
        if start <= place and place + size <= stop:
            first = own if first is None else first
            found.append((length, shared))
        elif start < place + size and place < stop:
            return None
        place, own = place + size, own + length
    return (first, tuple(found)) if first is not None else None


def product(sizes: Any) -> int:
    result = 1
    for size in sizes:
        result *= int(size)
    return result
