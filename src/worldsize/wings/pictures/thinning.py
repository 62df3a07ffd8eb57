"""The selection of the points of a line that are visible on a screen: of each column of pixels the first, lowest,
highest and last one."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import Any

_LARGEST = 1e200
"""The largest number of an axis. An axis cannot be computed beyond it, or nearer to 0 than its inverse."""


def numbers(values: Sequence[float], positive: bool) -> Any:
    """Return the values of a chart's line as a NumPy array in which values that cannot be drawn are NaN. `positive` is
    for a logarithmic axis, which cannot show values that are not above 0."""
    import numpy

    found = numpy.asarray(values, dtype=float).copy()
    with numpy.errstate(invalid="ignore"):
        found[~(numpy.abs(found) <= _LARGEST)] = numpy.nan
        found[numpy.abs(found) < 1 / _LARGEST] = 0.0
        if positive:
            found[~(found > 0)] = numpy.nan
    return found


def isolated(ys: Any) -> Any:
    """Return the indices of numbers in the array `ys` that have no number directly before and after them, so that no
    drawn line leads to them."""
    import numpy

    there = numpy.concatenate(([False], numpy.isfinite(ys), [False]))
    return numpy.flatnonzero(there[1:-1] & ~there[:-2] & ~there[2:])


def thinned(xs: Any, ys: Any, most: int, logarithmic: bool) -> tuple[Any, Any]:
    """Return at most `most` points of a chart's line that look the same as all, in their order, as arrays of x and y.
    `xs` are numbers, and `ys` may be NaN. Peaks and gaps are kept, unless there are more gaps than can be shown."""
    import numpy

    if len(xs) <= most:
        return xs, ys
    columns = most // 4
    kept = _kept(_columns(xs, columns, logarithmic), ys)
    if len(kept) > most:
        # The line goes back and forth, such as for repeated steps.
        kept = _kept(numpy.arange(len(xs)) * columns // len(xs), ys)
    if len(kept) > most:
        kept = kept[numpy.linspace(0, len(kept) - 1, most).astype(int)]
    return xs[kept], ys[kept]


def _columns(xs: Any, columns: int, logarithmic: bool) -> Any:
    import numpy

    places = numpy.log(xs) if logarithmic else xs
    low, high = places.min(), places.max()
    if not high > low:
        return numpy.zeros(len(xs), dtype=int)
    return ((places - low) / (high - low) * (columns - 1)).astype(int)


def _kept(columns: Any, ys: Any) -> Any:
    """Return the indices of the points of a line to keep, by the pixel column of each point: four for adjacent points
    in one column without a gap, and one for a gap."""
    import numpy

    there = numpy.isfinite(ys)
    changes = (columns[1:] != columns[:-1]) & (there[1:] | there[:-1]) | (there[1:] != there[:-1])
    first = numpy.concatenate(([0], numpy.flatnonzero(changes) + 1))
    last = numpy.concatenate((first[1:] - 1, [len(ys) - 1]))
    runs: Any = numpy.zeros(len(ys), dtype=int)
    runs[first[1:]] = 1
    order = numpy.lexsort((ys, runs.cumsum()))
    whole = there[first]
    return numpy.unique(numpy.concatenate((first, last[whole], order[first[whole]], order[last[whole]])))
