"""Charts of lines or bars, as SVG or PNG, by matplotlib (extra `plots`).

A picture depends on the chart alone: no date, no random id, no setting of the person's matplotlib. Text in SVG is text;
whatever it holds, none of it is read as a formula or as markup.
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import NamedTuple

_MOST_PANELS = 40


class Line(NamedTuple):
    """One line, or one group of bars. `xs` and `ys` are equally long; NaN and infinities interrupt a line. A `dashed`
    line is one to compare with, such as an ideal: grey."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    dashed: bool = False


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


def draw_chart(chart: Chart, format: str = "svg") -> bytes:
    """The picture: "svg" (to stand inside HTML, or as a file) or "png". A line of many points is thinned to what a
    screen shows of it. ConfigError without matplotlib."""
    return draw_charts((chart,), format)


def draw_charts(charts: Sequence[Chart], format: str = "svg") -> bytes:
    """One picture, the charts below each other; of more than 40, the first 40. Neighbours with the same x axis share
    it. ConfigError without matplotlib."""
    from worldsize.wings.pictures.matplotlib_figure import figure_bytes

    return figure_bytes(charts[:_MOST_PANELS], format)
