"""Charts of lines or bars, as SVG or PNG, by matplotlib (extra `plots`)."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import NamedTuple


class Line(NamedTuple):
    """One line, or one group of bars. `xs` and `ys` are equally long; NaN interrupts a line."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    dashed: bool = False


class Chart(NamedTuple):
    """kind  "line" or "bar"
    x_scale, y_scale  "linear", "log" or "log2"
    """

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    kind: str = "line"
    x_scale: str = "linear"
    y_scale: str = "linear"


def draw_chart(chart: Chart, format: str = "svg") -> bytes:
    """The picture: "svg" (to stand inside HTML, or as a file) or "png". ConfigError without matplotlib."""
    raise NotImplementedError
