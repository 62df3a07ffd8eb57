"""The names, colours and styles of the lines of a chart, and the legend next to the panel."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.pictures.chart_values import Chart, Line
from worldsize.wings.pictures.colours import FADED, PALETTE
from worldsize.wings.pictures.markup import visible_text

LONGEST_TITLE = 90
LONGEST_LABEL = 34
_MOST_NAMED = 12
"""The most lines that all have names. Of more lines, only as many are named as the palette has colours; the others are
grey."""
_MOST_LINES = 200
_DASHES: tuple[Any, ...] = ("--", ":", "-.", (0, (7, 2)))
"""The styles of lines for comparison, which all have the same colour."""
_CHARACTER = 0.078
_HANDLE = 0.45
"""The width in inches of the part of a legend before the name. _CHARACTER is the width of most characters."""


class Look(NamedTuple):
    line: Line
    colour: str
    style: Any
    named: bool


def looks(chart: Chart) -> list[Look]:
    """Return the colour, the style and whether it has a name in the legend for each of the chart's first 200 lines."""
    few = sum(not line.dashed for line in chart.lines) <= _MOST_NAMED
    found: list[Look] = []
    place = dashed = 0
    for line in chart.lines[:_MOST_LINES]:
        named = line.dashed or few or place < len(PALETTE)
        colour = PALETTE[place % len(PALETTE)] if named and not line.dashed else FADED
        style = "-." if named and place >= len(PALETTE) else "-"
        if line.dashed:
            style = _DASHES[dashed % len(_DASHES)]
        found.append(Look(line, colour, style, named))
        place += not line.dashed
        dashed += line.dashed
    return found


def legend_width(chart: Chart) -> float:
    """Return the width to reserve for the chart's legend next to the panels, in inches; 0 if there are fewer than two
    lines."""
    if len(chart.lines) < 2:
        return 0.0
    longest = max(len(shown_text(look.line.label, LONGEST_LABEL)) for look in looks(chart) if look.named)
    return _HANDLE + _CHARACTER * max(longest, len("and 1000 more"))


def draw_legend(panel: Any, chart: Chart, handles: Sequence[tuple[Look, Any]]) -> None:
    """Draw the chart's legend next to the panel, if there is more than one line. `handles` are the looks of the lines
    with matplotlib's lines or bars."""
    named = [(look.line.label, handle) for look, handle in handles if look.named]
    others = [handle for look, handle in handles if not look.named]
    if others:
        named.append((f"and {len(chart.lines) - len(named)} more", others[0]))
    if len(chart.lines) < 2:
        return
    legend = panel.legend(
        [handle for _, handle in named], ["."] * len(named), loc="upper left", bbox_to_anchor=(1.01, 1.0),
        borderaxespad=0, handlelength=1.6,
    )  # fmt: skip
    # matplotlib leaves out labels that begin with an underscore, so the texts are set afterwards.
    for text, (label, _) in zip(legend.get_texts(), named, strict=True):
        text.set_text(shown_text(label, LONGEST_LABEL))


def shown_text(text: str, longest: int) -> str:
    """Return the text in one line of at most `longest` characters, without characters that XML cannot contain."""
    line = visible_text(" ".join(text[: longest * 4].split()))
    line = line.replace("\ufffe", "�").replace("\uffff", "�")
    return line if len(line) <= longest else line[: longest - 1] + "…"
