"""Kinds of values in a training, as seen from the batch: a value for each sample, a mean over the samples, a sum over
them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Kind(NamedTuple):
    """The kind of a value. `word` is one of those below. For MIXED, `path`, `line` and `reason` state where and why."""

    word: str
    path: str = ""
    line: int = 0
    reason: str = ""


NUMBER = Kind("number")
"""A value that is the same on all ranks, and through which no gradient flows."""
SAME = Kind("same")
"""A value that is the same on all ranks, such as the weights."""
SIZE = Kind("size")
"""The number of samples in the batch."""
SAMPLES = Kind("samples")
"""A value for each sample, or any other value that may depend on the batch."""
MEAN = Kind("mean")
SUM = Kind("sum")
PER_SIZE = Kind("per size")
"""A number divided by the number of samples in the batch."""
MIXED = "mixed"
"""The word for a value that is computed from several samples of a batch and is neither their mean nor their sum."""

_RATIOS = {("sum", "size"): MEAN, ("size", "size"): NUMBER, ("samples", "size"): SAMPLES}
_PRODUCTS = {
    frozenset(("mean", "size")): SUM,
    frozenset(("samples", "size")): SAMPLES,
    frozenset(("sum", "per size")): MEAN,
    frozenset(("size", "per size")): NUMBER,
    frozenset(("samples", "per size")): SAMPLES,
}


def first_mixed(kinds: Iterable[Kind]) -> Kind | None:
    return next((kind for kind in kinds if kind.word == MIXED), None)


def is_same(kind: Kind) -> bool:
    return kind in (NUMBER, SAME)


def kind_of_sum(left: Kind, right: Kind) -> Kind | None:
    """Return the kind of `left + right`; None if the two cannot be combined."""
    if left == right:
        return left
    if is_same(left) and is_same(right):
        return SAME
    for one, other in ((left, right), (right, left)):
        if (one == NUMBER and other != SIZE) or (one == SAME and other in (MEAN, SAMPLES)):
            return other
    return None


def kind_of_product(left: Kind, right: Kind) -> Kind | None:
    for one, other in ((left, right), (right, left)):
        if is_same(one):
            return SAME if other == NUMBER else other
    if left == right == SAMPLES:
        return SAMPLES
    return _PRODUCTS.get(frozenset((left.word, right.word)))


def kind_of_ratio(left: Kind, right: Kind) -> Kind | None:
    if is_same(right):
        return left
    if right == SAMPLES and (is_same(left) or left == SAMPLES):
        return SAMPLES
    if right == SIZE and is_same(left):
        return PER_SIZE
    return _RATIOS.get((left.word, right.word))


def kind_of_several(kinds: Iterable[Kind]) -> Kind | None:
    """Return the Kind of a value that has one of several kinds, for example by an `if`; None if the kinds do not agree.
    NUMBER and SAME agree with any other kind, and a mixed kind has precedence."""
    found = set(kinds)
    mixed = first_mixed(sorted(found))
    if mixed is not None:
        return mixed
    if len(found) > 1:
        found -= {NUMBER}
    if len(found) > 1:
        found -= {SAME}
    return found.pop() if len(found) == 1 else None
