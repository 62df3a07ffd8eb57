"""Charts of lines or bars, as SVG or PNG, by matplotlib (extra `plots`).

A picture depends on the chart alone: no date, no random id, no setting of the person's matplotlib. Text in SVG is text;
whatever it holds, none of it is read as a formula or as markup.
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.wings.pictures.chart_values import Chart as Chart
from worldsize.wings.pictures.chart_values import Line as Line
from worldsize.wings.pictures.matplotlib_figure import figure_bytes

_MOST_PANELS = 40


def draw_chart(chart: Chart, format: str = "svg") -> bytes:
    """Return the picture: "svg" (to stand inside HTML, or as a file) or "png". A line of many points is thinned to what
    a screen shows of it. ConfigError without matplotlib."""
    return draw_charts((chart,), format)


def draw_charts(charts: Sequence[Chart], format: str = "svg") -> bytes:
    """One picture, the charts below each other; of more than 40, the first 40. Neighbours with the same x axis share
    it. ConfigError without matplotlib."""
    return figure_bytes(charts[:_MOST_PANELS], format)
