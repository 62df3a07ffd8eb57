"""Slurm's short way to name many elements of one job array: `1234_[0-2,7]`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

_MOST = 400
"""Characters of one list of numbers: far below what any Slurm reads."""


def folded(jobs: Iterable[str]) -> list[str]:
    """The same jobs in few words: elements of one array together, every other job as it is."""
    arrays: dict[str, list[int]] = {}
    alone = []
    for job in jobs:
        array, line, element = job.partition("_")
        if line and element.isdigit():
            arrays.setdefault(array, []).append(int(element))
        else:
            alone.append(job)
    return [*alone, *(word for array, numbers in arrays.items() for word in _words(array, sorted(set(numbers))))]


def _words(array: str, numbers: Sequence[int]) -> Iterator[str]:
    listed = ""
    for part in _ranges(numbers):
        if listed and len(listed) + len(part) > _MOST:
            yield "%s_[%s]" % (array, listed)
            listed = ""
        listed += ("," if listed else "") + part
    yield "%s_[%s]" % (array, listed)


def _ranges(numbers: Sequence[int]) -> Iterator[str]:
    first = last = numbers[0]
    for number in [*numbers[1:], -1]:
        if number == last + 1:
            last = number
            continue
        yield str(first) if first == last else "%d-%d" % (first, last)
        first = last = number
