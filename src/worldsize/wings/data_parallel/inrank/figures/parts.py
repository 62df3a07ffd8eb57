"""What a rank's tensor is of the whole batch's, and the table of the tensors of which that is known."""

from __future__ import annotations

import weakref
from typing import Any, Iterator, NamedTuple, Tuple

import torch

ROWS = "rows"
"""One dimension holds the slice's samples, of the batch's in the ranks' order."""

SELECTED = "selected"
"""As rows, but each rank has another number of them: what a mask has selected."""

SUM, MEAN, MAX, MIN = "sum", "mean", "max", "min"
"""The whole batch's is the sum (and so on) of the ranks', element by element."""

WEIGHTED = "weighted"
"""The whole batch's is the ranks' mean, weighted by what each has counted."""

COMPUTED = "computed"
"""The whole batch's is computed from other parts again."""

WHOLE = "whole"
"""It is the whole batch's already, with its gradient: every rank computes the same of it."""

OPEN = "open"
"""It depends on the slice, in a way that is not known."""

Blocks = Tuple[Tuple[int, bool], ...]


class Part(NamedTuple):
    """How a tensor stands to the whole batch's.

    `dim`, `blocks`: of rows, the batch's dimension, and the runs that it consists of: (length, whether ranks share it).
    `base`: of a sum, what all ranks hold alike of it, such as what a count began with. `weight`: of a weighted mean.
    `recipe`: of what is computed, the function with frozen arguments; `depth`: of how many steps. `positions`: rows
    that are the places 0, 1, … in the batch. `padded`: the dimensions in which ranks' rows have other sizes, since they
    are padded to their slice's longest sample, with the whole batch's sizes.
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
        """Whether each rank has as many of the rows as any other, and none has another's."""
        return all(shared for _, shared in self.blocks)

    def whole_length(self, ranks: int) -> int:
        return sum(length * ranks if shared else length for length, shared in self.blocks)


class Frozen:
    """The value that a tensor had, and its part; None for one of which nothing is known. `live`: the tensor itself,
    with its gradient, and the version that it had."""

    __slots__ = ("live", "part", "value", "version")

    def __init__(self, tensor: Any, part: Part | None) -> None:
        self.live = tensor
        self.version = tensor._version
        self.part = part
        self.value = tensor.detach().clone() if tensor.numel() == 1 else tensor.detach()


class PartTable:
    """The parts of tensors, as long as these live."""

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
        """`Variable(x)`, of which torch does not call the mode: another tensor of the same values."""
        made = original(kind, *values, **keywords)
        part = self.get(values[0] if values else keywords.get("data"))
        return made if part is None else self.put(made, part)

    def drop(self, tensor: Any) -> None:
        self._known.pop(id(tensor), None)


def tensors_in(value: Any, depth: int = 4) -> Iterator[Any]:
    """Yield the tensors in arguments or results: themselves, or in tuples, lists, mappings and data classes."""
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
    """`value` with `change` applied to all in it that is neither a list nor a tuple nor a mapping."""
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
