"""Charts of the figures in docs/explanation/performance/: ratios with their intervals, from the pages' tables."""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path
from typing import NamedTuple

PAGES = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "performance"
_RATIO = re.compile(r"(?P<value>[\d.]+)(?: \[(?P<low>[\d.]+), (?P<high>[\d.]+)\])?")
_INK, _OURS, _OTHERS = "#1f2328", "#2f6fd0", "#8b98a9"
_DARK = (
    "<style>@media(prefers-color-scheme:dark){[style*='%s']{fill:#e6edf3!important;stroke:#e6edf3!important}"
    "text{stroke:none!important}}</style>" % _INK
)


class Chart(NamedTuple):
    """A chart of one column of a table.

    name    of the picture: docs/pictures/NAME.svg
    page    with the table, below `PAGES`
    table   its title there
    column  with the ratios
    title   of the chart
    """

    name: str
    page: str
    table: str
    column: str
    title: str


class Ratio(NamedTuple):
    """A row of a table: the median of ratios, and its 95 % interval."""

    label: str
    value: float
    low: float
    high: float


CHARTS = (
    Chart(
        "performance-start",
        "start-and-end.md",
        "Start and end of 2 ranks that do nothing",
        "over mpirun",
        "Start and end of 2 ranks that do nothing (mpirun = 1; less is better)",
    ),
    Chart(
        "performance-first-step",
        "first-step.md",
        "First step, 1 × 4, ten rounds",
        "over torchrun",
        "Time to the first training step of 4 ranks (torchrun = 1; less is better)",
    ),
    Chart(
        "performance-launchers",
        "launchers-compared.md",
        "Two ranks of PyTorch that find their place",
        "over torchrun",
        "Two ranks of PyTorch, until the group is initialised (torchrun = 1; less is better)",
    ),
    Chart(
        "performance-many-ranks",
        "many-ranks.md",
        "1024 no-op ranks on 256 virtual nodes",
        "over the loop",
        "1024 ranks on 256 virtual nodes (a loop of bare processes = 1; less is better)",
    ),
    Chart(
        "performance-command-line",
        "command-line-speed.md",
        "Time to answer",
        "over import click",
        "Time to answer with 10,000 runs in the store (python -c 'import click' = 1; less is better)",
    ),
)


def read_ratios(chart: Chart) -> list[Ratio]:
    """Return the rows of the chart's table. Raise ValueError if the page has no such table or column."""
    text = (PAGES / chart.page).read_text(encoding="utf-8")
    after = text.partition("**%s**\n" % chart.table)[2].lstrip("\n").partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in after.splitlines()]
    if not rows or chart.column not in rows[0]:
        raise ValueError("%s has no table %r with a column %r" % (chart.page, chart.table, chart.column))
    place = rows[0].index(chart.column)
    found = []
    for row in rows[2:]:
        ratio = _RATIO.fullmatch(row[place])
        if ratio:
            value = float(ratio["value"])
            found.append(Ratio(row[0], value, float(ratio["low"] or value), float(ratio["high"] or value)))
    return found


def digest(chart: Chart) -> str:
    """Return a digest of all that the chart shows."""
    return hashlib.sha256(repr((chart, read_ratios(chart))).encode()).hexdigest()


def is_current(chart: Chart, picture: str) -> bool:
    """Return whether a picture shows the page's table as it is now."""
    return digest(chart) in picture


def draw_chart(chart: Chart) -> str:
    """Return the picture, as SVG: a bar for each row, on a logarithmic axis."""
    import matplotlib
    from matplotlib.figure import Figure

    ratios = read_ratios(chart)
    settings = {"svg.fonttype": "none", "svg.hashsalt": chart.name, "font.family": "sans-serif", "font.size": 10}
    ink = dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK)
    with matplotlib.rc_context({**settings, **ink}):
        figure = Figure(figsize=(8.6, 1.2 + 0.42 * len(ratios)), layout="constrained")
        axes = figure.add_subplot()
        places = range(len(ratios))
        axes.barh(
            places,
            [each.value for each in ratios],
            xerr=[[each.value - each.low for each in ratios], [each.high - each.value for each in ratios]],
            color=[_OURS if "worldsize" in each.label or "the same" in each.label else _OTHERS for each in ratios],
            ecolor=_INK,
            height=0.62,
        )
        axes.set_yticks(places, [each.label for each in ratios])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.axvline(1, color=_INK, linewidth=0.8, linestyle=":")
        axes.set_xlim(min(each.low for each in ratios) / 1.6, max(each.high for each in ratios) * 1.8)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
        for place, each in zip(places, ratios, strict=True):
            axes.annotate("%.3g ×" % each.value, (each.high, place), (6, 0), textcoords="offset points", va="center")
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("median of ratios, with its 95 % interval; logarithmic")
        figure.suptitle(chart.title, x=0.01, ha="left", fontsize=11)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = out.getvalue()
    start = svg.index(">", svg.index("<svg")) + 1
    lines = [line.rstrip() for line in (svg[:start] + _DARK + svg[start:]).splitlines()]
    return "\n".join([*lines, "<!-- %s -->" % digest(chart), ""])
