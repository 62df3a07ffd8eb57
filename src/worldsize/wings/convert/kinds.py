"""What a value of a training is, as far as its batch goes: of each sample, a mean over them, a sum over them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Kind(NamedTuple):
    """`word`: one of those below. Of MIXED, the place and the reason: the path, the line, what stands there."""

    word: str
    path: str = ""
    line: int = 0
    reason: str = ""


NUMBER = Kind("number")
"""The same on all ranks, and no gradient flows through it."""
SAME = Kind("same")
"""The same on all ranks, such as the weights."""
SIZE = Kind("size")
"""How many samples the batch has."""
SAMPLES = Kind("samples")
"""A value for each sample; or what could be anything that a batch gives."""
MEAN = Kind("mean")
SUM = Kind("sum")
PER_SIZE = Kind("per size")
"""A number divided by how many samples the batch has."""
MIXED = "mixed"
"""The word for a value that the samples of a batch give together, and that is neither their mean nor their sum."""

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
    """Of `left + right`; None where the two cannot be combined."""
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
    """Of a value that is one of several."""
    found = set(kinds)
    mixed = first_mixed(sorted(found))
    if mixed is not None:
        return mixed
    if len(found) > 1:
        found -= {NUMBER}
    if len(found) > 1:
        found -= {SAME}
    return found.pop() if len(found) == 1 else None
