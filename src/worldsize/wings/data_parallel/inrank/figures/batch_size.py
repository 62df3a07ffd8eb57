"""The size of a batch: that of the whole batch for Python, and that of the slice where torch creates tensors with
it."""

from __future__ import annotations

import operator
from typing import Any, Callable


class BatchSize(int):
    """An integer that was computed from the size of a batch. `local` is its value for this rank's slice."""

    local: int

    def __new__(cls, whole: int, local: int) -> BatchSize:
        made = super().__new__(cls, whole)
        made.local = local
        return made

    def __copy__(self) -> BatchSize:
        return self

    def __deepcopy__(self, memo: Any) -> BatchSize:
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        return int, (int(self),)

    def __round__(self, digits: Any = None) -> Any:
        return self if digits is None or digits >= 0 else int(self).__round__(digits)


def made_size(whole: int, local: int) -> int:
    """Return the size `whole` of the whole batch as a BatchSize with the value `local` for this rank's slice; as a
    plain integer if both are the same."""
    return int(whole) if whole == local else BatchSize(whole, local)


def local_number(number: Any) -> Any:
    """Return the value of a BatchSize for this rank's slice of the batch. Return any other value unchanged."""
    return number.local if type(number) is BatchSize else number


def _binary(apply: Callable[[Any, Any], Any], turned: bool = False) -> Any:
    def operate(self: BatchSize, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        sides = (other, self) if turned else (self, other)
        whole = apply(int(sides[0]), int(sides[1]))
        try:
            return made_size(whole, apply(*map(local_number, sides)))
        except ZeroDivisionError:
            return whole

    return operate


def _unary(apply: Callable[[Any], Any]) -> Any:
    return lambda self: made_size(apply(int(self)), apply(self.local))


for _name in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(BatchSize, f"__{_name}__", _binary(getattr(operator, _name)))
    setattr(BatchSize, f"__r{_name}__", _binary(getattr(operator, _name), True))
for _name in ("neg", "pos", "abs"):
    setattr(BatchSize, f"__{_name}__", _unary(getattr(operator, _name)))
