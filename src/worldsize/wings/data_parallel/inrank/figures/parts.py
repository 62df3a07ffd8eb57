"""The relation of a rank's tensors to those of the whole batch, and the table of the tensors for which it is known."""

from __future__ import annotations

import weakref
from typing import Any, Iterator, NamedTuple, Tuple

import torch

ROWS = "rows"
"""The kind of a tensor that has the slice's samples in one dimension. In the whole batch they are in the ranks'
order."""

SELECTED = "selected"
"""The kind of rows that a mask has selected. Unlike ROWS, each rank has a different number of them."""

SUM, MEAN, MAX, MIN = "sum", "mean", "max", "min"
"""The kinds of a tensor whose whole-batch value is the sum (and so on) of the ranks' values, element by element."""

WEIGHTED = "weighted"
"""The kind of a tensor whose whole-batch value is the mean of the ranks' values, weighted by the count of each rank."""

COMPUTED = "computed"
"""The kind of a tensor whose whole-batch value is computed again from other parts."""

WHOLE = "whole"
"""The kind of a tensor that is already that of the whole batch, with its gradient. Every rank computes the same from
it."""

OPEN = "open"
"""The kind of a tensor that depends on the slice in an unknown way."""

Blocks = Tuple[Tuple[int, bool], ...]


class Part(NamedTuple):
    """The relation of a tensor to that of the whole batch.

    kind       one of the kinds above
    dim        of rows: the batch's dimension
    blocks     of rows: the runs that it consists of, as (length, whether the run is divided among the ranks)
    base       of a sum: the summand that is the same on all ranks, such as the initial value of a count
    weight     of a weighted mean: the weight
    recipe     of a computed value: the function with frozen arguments
    depth      of a computed value: the number of its steps
    positions  whether the rows are the positions 0, 1, … in the batch
    padded     the dimensions in which ranks' rows have different sizes, because they are padded to their slice's
               longest sample, with the whole batch's sizes
    """

    kind: str
    dim: int = 0
    blocks: Blocks = ()
    base: Any = None
    weight: Any = None
    recipe: Any = None
    depth: int = 0
    positions: bool = False
    padded: Tuple[Tuple[int, int], ...] = ()

    @property
    def length(self) -> int:
        return sum(length for length, _ in self.blocks)

    @property
    def is_even(self) -> bool:
        """True if all runs of the tensor's rows are divided among the ranks, so that each rank has the same number of
        rows, and no row is on two ranks."""
        return all(shared for _, shared in self.blocks)

    def whole_length(self, ranks: int) -> int:
        return sum(length * ranks if shared else length for length, shared in self.blocks)


class Frozen:
    """The value that a tensor had, and its part; the part is None if nothing is known about it. `live` is the tensor
    itself, with its gradient, and `version` is the version that it had."""

    __slots__ = ("live", "part", "value", "version")

    def __init__(self, tensor: Any, part: Part | None) -> None:
        self.live = tensor
        self.version = tensor._version
        self.part = part
        self.value = tensor.detach().clone() if tensor.numel() == 1 else tensor.detach()


class PartTable:
    """The table of the Parts (relations to the whole batch) of the tensors that still exist."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Part]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, tensor: Any) -> bool:
        return id(tensor) in self._known

    def get(self, tensor: Any) -> Part | None:
        found = self._known.get(id(tensor))
        return None if found is None else found[1]

    def has_rows(self, tensor: Any) -> bool:
        part = self.get(tensor)
        return part is not None and part.kind == ROWS

    def put(self, tensor: Any, part: Part) -> Any:
        key = id(tensor)
        self._known[key] = (weakref.ref(tensor, lambda _: self._known.pop(key, None)), part)
        return tensor

    def put_variable(self, original: Any, kind: Any, *values: Any, **keywords: Any) -> Any:
        """Create torch's `Variable(x)`, another tensor of the same values as `x`, and record the Part of `x` for it.
        torch does not call the mode for this."""
        made = original(kind, *values, **keywords)
        part = self.get(values[0] if values else keywords.get("data"))
        return made if part is None else self.put(made, part)

    def drop(self, tensor: Any) -> None:
        self._known.pop(id(tensor), None)


def tensors_in(value: Any, depth: int = 4) -> Iterator[Any]:
    """Yield the tensors in the arguments or results of a function, directly or in tuples, lists, mappings and data
    classes, down to `depth` levels."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each, depth - 1)
    elif depth and isinstance(value, dict):
        for each in value.values():
            yield from tensors_in(each, depth - 1)
    elif depth and hasattr(value, "__dataclass_fields__"):
        yield from tensors_in(vars(value), depth - 1)


def mapped(value: Any, change: Any) -> Any:
    """Return `value` with `change` applied to all of its elements that are neither lists nor tuples nor mappings."""
    kind = type(value)
    if kind in (list, tuple) or kind is torch.Size:
        made = [mapped(each, change) for each in value]
        return made if kind is list else tuple(made) if kind is tuple else torch.Size(made)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return kind(*(mapped(each, change) for each in value))
    if kind is dict:
        return {key: mapped(each, change) for key, each in value.items()}
    if kind is slice:
        return slice(change(value.start), change(value.stop), change(value.step))
    return change(value)
