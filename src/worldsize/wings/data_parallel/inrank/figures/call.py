"""A call of a torch function by the script."""

from __future__ import annotations

from typing import Any, Callable

import torch

from .batch_size import BatchSize, local_number
from .function_names import ARITHMETIC
from .parts import COMPUTED, Frozen, Part, PartTable, mapped, tensors_in


class Call:
    """A call of a torch function. `name` is the function's name without the marks of variants. `in_place` means that
    the function changes its first argument. `parts` are the Parts of those argument tensors whose relation to the whole
    batch is known, in the order of the arguments."""

    __slots__ = ("args", "function", "in_place", "kwargs", "name", "parts", "table", "tensors")

    def __init__(self, table: PartTable, name: str, in_place: bool, function: Any, args: Any, kwargs: Any) -> None:
        self.table = table
        self.name = name
        self.in_place = in_place
        self.function = function
        self.args = args
        self.kwargs = kwargs
        self.tensors = list(tensors_in((args, kwargs)))
        self.parts: list[Part] = [part for each in self.tensors for part in (table.get(each),) if part is not None]

    def run_own(self) -> Any:
        """Call the torch function with this rank's slice of the batch, and with sizes of the slice instead of the whole
        batch, and return its result."""
        if self.name in ARITHMETIC or not _has_size((self.args, self.kwargs)):
            return self.function(*self.args, **self.kwargs)
        return self.function(*mapped(self.args, local_number), **mapped(self.kwargs, local_number))

    def changed(self, change: Callable[[Any], Any]) -> Call:
        """Return a Call of the same torch function with each argument replaced by the result of `change`."""
        args, kwargs = mapped(self.args, change), mapped(self.kwargs, change)
        return Call(self.table, self.name, self.in_place, self.function, args, kwargs)

    @property
    def kinds(self) -> set[str]:
        return {part.kind for part in self.parts}

    @property
    def has_gradient(self) -> bool:
        """True if autograd will record the call."""
        return torch.is_grad_enabled() and any(each.requires_grad for each in self.tensors)

    @property
    def depth(self) -> int:
        return max((part.depth for part in self.parts), default=0)

    def recipe(self) -> Part:
        """Return a Part of the kind COMPUTED for the result of the torch function. The whole batch's result is computed
        from the whole batch's arguments when it is requested."""
        args, kwargs = mapped(self.args, self._frozen), mapped(self.kwargs, self._frozen)
        return Part(COMPUTED, recipe=(self.function, args, kwargs), depth=self.depth + 1)

    def _frozen(self, value: Any) -> Any:
        return Frozen(value, self.table.get(value)) if isinstance(value, torch.Tensor) else value


def _has_size(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_size, value))
    if isinstance(value, dict):
        return any(map(_has_size, value.values()))
    if isinstance(value, slice):
        return BatchSize in (type(value.start), type(value.stop), type(value.step))
    return type(value) is BatchSize
