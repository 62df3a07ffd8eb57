"""The drawing of one chart into one panel of a picture: lines or bars, scales, ticks, and the legend."""

from __future__ import annotations

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.pictures.chart_values import Chart, Line
from worldsize.wings.pictures.legend import LONGEST_LABEL, LONGEST_TITLE, Look, draw_legend, looks, shown_text
from worldsize.wings.pictures.thinning import isolated, numbers, thinned

_MOST_BARS = 400
_MOST_POINTS = 16000
"""The most points of one chart. Each line has its share, and at least a few."""
_FEW_POINTS = 30
"""The most points of a line that are all marked."""


class Drawn(NamedTuple):
    """A line as it is drawn. Its numbers are in a range for which the axes can be computed."""

    look: Look
    xs: Any
    ys: Any


def draw_axes(panel: Any, chart: Chart, with_x_label: bool) -> None:
    panel.set_title(shown_text(chart.title, LONGEST_TITLE))
    panel.set_ylabel(shown_text(chart.y_label, LONGEST_LABEL))
    if with_x_label:
        panel.set_xlabel(shown_text(chart.x_label, LONGEST_TITLE))
    drawn = [each for each in _drawn_lines(chart) if len(each.xs)]
    if not drawn:
        _say_empty(panel)
    elif chart.kind == "bar":
        _draw_bars(panel, chart, drawn)
    else:
        _draw_lines(panel, chart, drawn)


def _drawn_lines(chart: Chart) -> list[Drawn]:
    return [Drawn(look, *_numbers_of(look.line, chart)) for look in looks(chart)]


def _numbers_of(line: Line, chart: Chart) -> tuple[Any, Any]:
    """Return the points of a line of a chart, as an array of x and one of y, that have an x, from the first to the last
    one with a y."""
    xs, ys = numbers(line.xs, chart.x_scale != "linear"), numbers(line.ys, chart.y_scale != "linear")
    size = min(len(xs), len(ys))
    xs, ys = xs[:size], ys[:size]
    there = xs == xs
    xs, ys = xs[there], ys[there]
    finite = (ys == ys).nonzero()[0]
    return (xs[finite[0] : finite[-1] + 1], ys[finite[0] : finite[-1] + 1]) if len(finite) else (xs[:0], ys[:0])


def _say_empty(panel: Any) -> None:
    panel.text(0.5, 0.5, "no values", transform=panel.transAxes, ha="center", va="center")
    panel.grid(False)
    panel.tick_params(left=False, bottom=False, labelleft=False, labelbottom=False)


def _draw_lines(panel: Any, chart: Chart, drawn: list[Drawn]) -> None:
    _set_scales(panel, chart)
    most = max(120, min(2000, _MOST_POINTS // len(drawn)))
    handles = []
    for look, all_xs, all_ys in drawn:
        xs, ys = thinned(all_xs, all_ys, most, chart.x_scale != "linear")
        handles.append((look, _draw_line(panel, look, xs, ys)))
        _draw_spread(panel, look, chart)
    _set_ticks(panel, chart)
    if chart.x_scale == "linear" and not chart.x_ticks and all((each.xs == each.xs.round()).all() for each in drawn):
        panel.xaxis.get_major_locator().set_params(integer=True)
    draw_legend(panel, chart, handles)


def _draw_line(panel: Any, look: Look, xs: Any, ys: Any) -> Any:
    """Draw a line of a chart into the matplotlib panel, and return matplotlib's line. Points are marked if there are
    few of them, and if no line leads to them."""
    few = len(xs) <= _FEW_POINTS and look.named and not look.line.dashed
    marked = list(range(len(xs)) if few else isolated(ys))
    marks = {"marker": "o", "markersize": 3.2, "markevery": marked} if marked else {}
    width, depth = (1.5, 2) if look.named else (0.7, 1)
    return panel.plot(xs, ys, color=look.colour, linestyle=look.style, linewidth=width, zorder=depth, **marks)[0]


def _draw_spread(panel: Any, look: Look, chart: Chart) -> None:
    """Draw the spread of a chart's line into the panel: a bar from low to high at each of its first few hundred
    points."""
    line = look.line
    positive = chart.y_scale != "linear"
    xs = numbers(line.xs[:_MOST_BARS], chart.x_scale != "linear")
    lows, highs = numbers(line.lows[:_MOST_BARS], positive), numbers(line.highs[:_MOST_BARS], positive)
    size = min(len(xs), len(lows), len(highs))
    there = (xs[:size] == xs[:size]) & (lows[:size] <= highs[:size])
    if there.any():
        ends = (xs[:size][there], lows[:size][there], highs[:size][there])
        panel.vlines(*ends, color=look.colour, linewidth=4, alpha=0.35, zorder=1)


def _set_scales(panel: Any, chart: Chart) -> None:
    for set_scale, scale in ((panel.set_xscale, chart.x_scale), (panel.set_yscale, chart.y_scale)):
        if scale != "linear":
            set_scale("log", base=2 if scale == "log2" else 10)


def _set_ticks(panel: Any, chart: Chart) -> None:
    """Set the ticks of a chart's axes in the panel. Logarithmic axes get plain numbers, because matplotlib would write
    formulas."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

    formatter = FuncFormatter(lambda value, place: number_text(value))
    axes = ((panel.xaxis, chart.x_scale, chart.x_ticks), (panel.yaxis, chart.y_scale, chart.y_ticks))
    for axis, scale, ticks in axes:
        if ticks:
            axis.set_major_locator(FixedLocator(list(ticks[:50])))
            axis.set_minor_locator(NullLocator())
        if ticks or scale != "linear":
            axis.set_major_formatter(formatter)
            axis.set_minor_formatter(NullFormatter())


def number_text(value: float) -> str:
    """Return a number of an axis as text, such as "16", "0.01" or "1e-09"."""
    return f"{value:.6g}".replace("-", "−") if value < 0 else f"{value:.6g}"


def _draw_bars(panel: Any, chart: Chart, drawn: list[Drawn]) -> None:
    """Draw a bar chart into the panel, with a bar of each line in each group. The groups are at equal distances, in the
    order in which their x values first appear."""
    groups = list(dict.fromkeys(float(x) for each in drawn for x in each.xs))[:_MOST_BARS]
    width = 0.8 / len(drawn)
    handles = []
    for place, each in enumerate(drawn):
        heights = {float(x): y for x, y in zip(each.xs, each.ys, strict=True)}
        shown = [number for number, group in enumerate(groups) if group in heights]
        offset = (place - (len(drawn) - 1) / 2) * width
        bars = panel.bar(
            [number + offset for number in shown], [heights[groups[number]] for number in shown], width * 0.94,
            color=each.look.colour,
        )  # fmt: skip
        handles.append((each.look, bars))
    if chart.y_scale != "linear":
        panel.set_yscale("log", base=2 if chart.y_scale == "log2" else 10)
    _set_ticks(panel, chart._replace(x_scale="linear", x_ticks=()))
    step = len(groups) // 25 + 1
    panel.set_xticks(range(0, len(groups), step), [number_text(group) for group in groups[::step]])
    panel.grid(False, axis="x")
    draw_legend(panel, chart, handles)
