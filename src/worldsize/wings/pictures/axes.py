"""One chart → one panel of a picture: lines or bars, scales, ticks, and who is who."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.pictures.chart import Chart, Line
from worldsize.wings.pictures.colours import FADED, PALETTE
from worldsize.wings.pictures.markup import visible_text
from worldsize.wings.pictures.thinning import isolated, numbers, thinned

_LONGEST_TITLE = 90
_LONGEST_LABEL = 34
_MOST_NAMED = 12
"""Lines that have names; of more, those that the palette tells apart, and the others are grey."""
_MOST_LINES = 200
_MOST_BARS = 400
_MOST_POINTS = 8000
"""Points of one chart; each line has its share, and at least a few."""
_FEW_POINTS = 30
"""So many are marked each."""


class _Drawn(NamedTuple):
    """A line as it is drawn: numbers out of which no axis grows infinite, in the colour it has."""

    line: Line
    xs: Any
    ys: Any
    colour: str
    style: str
    named: bool


def draw_axes(panel: Any, chart: Chart, with_x_label: bool) -> None:
    panel.set_title(shown_text(chart.title, _LONGEST_TITLE))
    panel.set_ylabel(shown_text(chart.y_label, _LONGEST_LABEL))
    if with_x_label:
        panel.set_xlabel(shown_text(chart.x_label, _LONGEST_TITLE))
    drawn = [each for each in _drawn_lines(chart) if len(each.xs)]
    if not drawn:
        _say_empty(panel)
    elif chart.kind == "bar":
        _draw_bars(panel, chart, drawn)
    else:
        _draw_lines(panel, chart, drawn)


def shown_text(text: str, longest: int) -> str:
    """In one line, with nothing that XML cannot hold."""
    line = visible_text(" ".join(text[: longest * 4].split()))
    line = line.replace("\ufffe", "�").replace("\uffff", "�")
    return line if len(line) <= longest else line[: longest - 1] + "…"


def _drawn_lines(chart: Chart) -> list[_Drawn]:
    few = sum(not line.dashed for line in chart.lines) <= _MOST_NAMED
    found: list[_Drawn] = []
    place = 0
    for line in chart.lines[:_MOST_LINES]:
        xs, ys = _numbers_of(line, chart)
        named = line.dashed or few or place < len(PALETTE)
        colour = PALETTE[place % len(PALETTE)] if named and not line.dashed else FADED
        style = "--" if line.dashed else "-." if named and place >= len(PALETTE) else "-"
        found.append(_Drawn(line, xs, ys, colour, style, named))
        place += not line.dashed
    return found


def _numbers_of(line: Line, chart: Chart) -> tuple[Any, Any]:
    """The points that have an x, from the first with a y to the last one."""
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


def _draw_lines(panel: Any, chart: Chart, drawn: list[_Drawn]) -> None:
    _set_scales(panel, chart)
    most = max(120, min(2000, _MOST_POINTS // len(drawn)))
    handles = []
    for each in drawn:
        xs, ys = thinned(each.xs, each.ys, most, chart.x_scale != "linear")
        marked = range(len(xs)) if len(xs) <= _FEW_POINTS and each.named and not each.line.dashed else isolated(ys)
        look = {"color": each.colour, "linestyle": each.style, "linewidth": 1.5 if each.named else 0.7}
        depth = 2 if each.named else 1
        (handle,) = panel.plot(xs, ys, marker="o", markersize=3.2, markevery=list(marked), zorder=depth, **look)
        handles.append((each, handle))
    _set_ticks(panel, chart)
    _draw_legend(panel, chart, handles)


def _set_scales(panel: Any, chart: Chart) -> None:
    for set_scale, scale in ((panel.set_xscale, chart.x_scale), (panel.set_yscale, chart.y_scale)):
        if scale != "linear":
            set_scale("log", base=2 if scale == "log2" else 10)


def _set_ticks(panel: Any, chart: Chart) -> None:
    """Logarithmic axes say numbers: what matplotlib writes at them are formulas."""
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
    """ "16", "0.01", "1e-09"."""
    return f"{value:.6g}".replace("-", "−") if value < 0 else f"{value:.6g}"


def _draw_bars(panel: Any, chart: Chart, drawn: list[_Drawn]) -> None:
    """Groups in the order in which their x first appear, beside each other at equal distances."""
    groups = list(dict.fromkeys(float(x) for each in drawn for x in each.xs))[:_MOST_BARS]
    width = 0.8 / len(drawn)
    handles = []
    for place, each in enumerate(drawn):
        heights = {float(x): y for x, y in zip(each.xs, each.ys, strict=True)}
        shown = [number for number, group in enumerate(groups) if group in heights]
        offset = (place - (len(drawn) - 1) / 2) * width
        bars = panel.bar(
            [number + offset for number in shown], [heights[groups[number]] for number in shown], width * 0.94,
            color=each.colour,
        )  # fmt: skip
        handles.append((each, bars))
    if chart.y_scale != "linear":
        panel.set_yscale("log", base=2 if chart.y_scale == "log2" else 10)
    _set_ticks(panel, chart._replace(x_scale="linear", x_ticks=()))
    step = len(groups) // 25 + 1
    panel.set_xticks(range(0, len(groups), step), [number_text(group) for group in groups[::step]])
    panel.grid(False, axis="x")
    _draw_legend(panel, chart, handles)


def _draw_legend(panel: Any, chart: Chart, handles: Sequence[tuple[_Drawn, Any]]) -> None:
    """Beside the panel, where more than one line is to be told apart."""
    named = [(each.line.label, handle) for each, handle in handles if each.named]
    others = [handle for each, handle in handles if not each.named]
    unnamed = len(chart.lines) - len(named)
    if others:
        named.append((f"and {unnamed} more", others[0]))
    if len(named) < 2:
        return
    legend = panel.legend(
        [handle for _, handle in named], ["."] * len(named), loc="upper left", bbox_to_anchor=(1.0, 1.0),
        borderaxespad=0,
    )  # fmt: skip
    # matplotlib leaves out labels that begin with an underscore, where it is given them.
    for text, (label, _) in zip(legend.get_texts(), named, strict=True):
        text.set_text(shown_text(label, _LONGEST_LABEL))
