"""The values that a chart shows."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import NamedTuple


class Line(NamedTuple):
    """A line, or a group of bars. `xs` and `ys` have the same length; NaN and infinities interrupt a line. A `dashed`
    line is grey and serves for comparison, such as an ideal. `lows` and `highs` are the spread of each point, drawn as
    a bar through it, with NaN for none. They are empty or have the same length."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    dashed: bool = False
    lows: Sequence[float] = ()
    highs: Sequence[float] = ()


class Chart(NamedTuple):
    """A chart with its lines, labels and axes.

    kind              "line" or "bar"
    x_scale, y_scale  "linear", "log" or "log2"; a logarithmic axis leaves out values that are not above 0
    x_ticks, y_ticks  the positions of the axes' numbers; empty: chosen automatically
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
