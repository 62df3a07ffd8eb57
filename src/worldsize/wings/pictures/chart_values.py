"""What a chart shows."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import NamedTuple


class Line(NamedTuple):
    """One line, or one group of bars. `xs` and `ys` are equally long; NaN and infinities interrupt a line. A `dashed`
    line is one to compare with, such as an ideal: grey. `lows` and `highs`, of the same length where they are not
    empty, are the spread of each point, drawn as a bar through it; NaN for none."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    dashed: bool = False
    lows: Sequence[float] = ()
    highs: Sequence[float] = ()


class Chart(NamedTuple):
    """kind  "line" or "bar"
    x_scale, y_scale  "linear", "log" or "log2"; values that are not above 0 are left out of a logarithmic one
    x_ticks, y_ticks  where the axes have their numbers; empty: wherever it looks well
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    kind: str = "line"
    x_scale: str = "linear"
    y_scale: str = "linear"
    x_ticks: tuple[float, ...] = ()
    y_ticks: tuple[float, ...] = ()
