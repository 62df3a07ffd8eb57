"""The points of a line that a screen shows: of each column of pixels the first, lowest, highest and last one."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import Any

_LARGEST = 1e200
"""Beyond, and nearer to 0 than its inverse, an axis cannot be computed."""


def numbers(values: Sequence[float], positive: bool) -> Any:
    """Return an array in which NaN is what cannot be drawn; `positive` for a logarithmic axis."""
    import numpy

    found = numpy.asarray(values, dtype=float).copy()
    with numpy.errstate(invalid="ignore"):
        found[~(numpy.abs(found) <= _LARGEST)] = numpy.nan
        found[numpy.abs(found) < 1 / _LARGEST] = 0.0
        if positive:
            found[~(found > 0)] = numpy.nan
    return found


def isolated(ys: Any) -> Any:
    """Return the places of numbers between two that are none: no line leads there."""
    import numpy

    there = numpy.concatenate(([False], numpy.isfinite(ys), [False]))
    return numpy.flatnonzero(there[1:-1] & ~there[:-2] & ~there[2:])


def thinned(xs: Any, ys: Any, most: int, logarithmic: bool) -> tuple[Any, Any]:
    """At most `most` points of the same look, in their order; `xs` are numbers, `ys` may be NaN. Peaks and gaps stay,
    but where gaps alone are more than can be shown."""
    import numpy

    if len(xs) <= most:
        return xs, ys
    columns = most // 4
    kept = _kept(_columns(xs, columns, logarithmic), ys)
    if len(kept) > most:
        # A line that goes back and forth, as steps that were done again.
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
    """Return the places to keep: of neighbours in one column and without a gap, four; of a gap, one."""
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
