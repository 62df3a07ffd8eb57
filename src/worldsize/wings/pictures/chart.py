"""Charts of lines or bars, as SVG or PNG, by matplotlib (extra `plots`).

A picture depends only on the chart: it contains no date and no random id, and ignores the user's matplotlib settings.
Text in SVG stays text. No text is interpreted as a formula or as markup.
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.wings.pictures.chart_values import Chart as Chart
from worldsize.wings.pictures.chart_values import Line as Line
from worldsize.wings.pictures.matplotlib_figure import figure_bytes

_MOST_PANELS = 40


def draw_chart(chart: Chart, format: str = "svg") -> bytes:
    """Return a picture of the chart as bytes, in the format "svg" (for use inside HTML, or as a file) or "png". A line
    of many points is thinned to the points that are visible on a screen. Raise ConfigError without matplotlib."""
    return draw_charts((chart,), format)


def draw_charts(charts: Sequence[Chart], format: str = "svg") -> bytes:
    """Return one picture (bytes in the format "svg" or "png") with the charts below each other; of more than 40, the
    first 40. If all charts have the same x axis, they share it. Raise ConfigError without matplotlib."""
    return figure_bytes(charts[:_MOST_PANELS], format)
