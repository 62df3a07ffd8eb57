"""Files of tests in shares that take about as long as each other."""

from __future__ import annotations

from collections.abc import Mapping


def share_of(sizes: Mapping[str, int], number: int, count: int) -> list[str]:
    """The files of share `number`, from 0, of `count`, in the order of `sizes`; the size of a file stands for the time
    that its tests take."""
    loads = [0] * count
    shares: list[set[str]] = [set() for _ in loads]
    for path in sorted(sizes, key=lambda each: (-sizes[each], each)):
        least = loads.index(min(loads))
        loads[least] += sizes[path]
        shares[least].add(path)
    return [path for path in sizes if path in shares[number]]
