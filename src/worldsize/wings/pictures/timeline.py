"""Timelines that show durations, one row for each node or rank, drawn as elements of a page without matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from worldsize.cli.console import count_text, duration_text
from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.pictures.colours import FADED, GRID, PALETTE
from worldsize.wings.pictures.markup import Element, element

_WIDTH = 960
_LABELS = 190
_BARS = _WIDTH - _LABELS - 30
_ROW = 22
_TOP = 24
_LONGEST_LABEL = 26
_MOST_ROWS = 400
_MOST_SPANS = 200
_STEPS = (0.1, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400)
"""The possible distances of ticks in seconds; beyond them, whole days."""
_MOST_TICKS = 10
_LEGEND_COLUMNS = 4
_OTHERS = "other"


class Span(NamedTuple):
    """A period from `start` to `end`, in seconds of any one clock. Spans of one kind have one colour, which the legend
    below the rows names. `label` is shown as a tooltip; "" means that the kind is shown."""

    kind: str
    start: float
    end: float
    label: str = ""


class TimelineRow(NamedTuple):
    label: str
    spans: tuple[Span, ...]


def draw_timeline(title: str, rows: Sequence[TimelineRow]) -> Element:
    """Return a timeline as an SVG element of a page: a row of horizontal bars for each of `rows`, over one time axis,
    which begins at the first span. A moment is drawn as a thin bar. Spans without a finite start and end are left out.
    Rows beyond 400 are only counted."""
    shown = [TimelineRow(row.label, _sound(row.spans)) for row in rows[:_MOST_ROWS]]
    spans = [span for row in shown for span in row.spans]
    if not spans:
        return element("p", f"{title}: no times", class_="muted")
    start = min(span.start for span in spans)
    scale = _Scale(start, max(max(span.end for span in spans) - start, 0.1))
    colours = _colours(spans)
    bottom = _TOP + _ROW * len(shown)
    below = _legend(colours, bottom + 12)
    if len(rows) > len(shown):
        below.append(_text(f"and {count_text(len(rows) - len(shown), 'row')} more", 0, bottom + 12))
    height = bottom + 30 + _ROW * ((len(colours) - 1) // _LEGEND_COLUMNS)
    parts = [element("title", title), *_ticks(scale, bottom)]
    parts += [part for place, row in enumerate(shown) for part in _row(row, _TOP + place * _ROW, scale, colours)]
    size = {"viewBox": f"0 0 {_WIDTH} {height}", "width": str(_WIDTH), "height": str(height)}
    return element("svg", *parts, *below, role="img", aria_label=title, font_size="12", **size)


class _Scale(NamedTuple):
    start: float
    length: float

    def place(self, time: float) -> float:
        return _LABELS + (time - self.start) / self.length * _BARS


def _sound(spans: tuple[Span, ...]) -> tuple[Span, ...]:
    limit = 1e11
    sound = [span for span in spans[:_MOST_SPANS] if isfinite(span.start + span.end) and abs(span.start) < limit]
    return tuple(span._replace(end=max(span.start, min(span.end, limit))) for span in sound)


def _colours(spans: list[Span]) -> dict[str, str]:
    """Return the colour of each kind of span in a timeline, in the order in which the kinds appear. Kinds beyond the
    palette share the colour of "other"."""
    kinds = list(dict.fromkeys(span.kind for span in spans))
    own = dict(zip(kinds, PALETTE, strict=False))
    return {**own, _OTHERS: FADED} if len(kinds) > len(own) else own


def _row(row: TimelineRow, y: int, scale: _Scale, colours: dict[str, str]) -> list[Element]:
    parts = [_text(row.label, 0, y + 11)]
    for span in row.spans:
        left = scale.place(span.start)
        width = max(scale.place(span.end) - left, 2)
        name = f"{row.label}: {span.label or span.kind}, {duration_text(span.end - span.start)}"
        box = {"x": f"{left:.1f}", "width": f"{width:.1f}", "y": str(y + 4), "height": str(_ROW - 8)}
        parts.append(element("rect", element("title", name), fill=colours.get(span.kind, FADED), **box))
    return parts


def _ticks(scale: _Scale, bottom: int) -> list[Element]:
    step = _step(scale.length)
    parts = []
    for number in range(int(scale.length / step) + 1):
        x = f"{scale.place(scale.start + number * step):.1f}"
        parts.append(element("line", x1=x, x2=x, y1=str(_TOP - 4), y2=str(bottom), stroke=GRID, stroke_opacity="0.35"))
        parts.append(_text(_tick_text(number * step, step), float(x), 8, anchor="middle"))
    return parts


def _step(length: float) -> float:
    day = _STEPS[-1]
    fitting = [step for step in _STEPS if length / step <= _MOST_TICKS]
    return fitting[0] if fitting else day * (length // (day * _MOST_TICKS) + 1)


def _tick_text(seconds: float, step: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if step >= size:
            return f"{seconds / size:g} {unit}"
    if step < 1 or seconds < 120:
        return f"{seconds:g} s"
    return f"{int(seconds // 60)}:{int(seconds % 60):02d} min"


def _legend(colours: dict[str, str], top: int) -> list[Element]:
    parts = []
    for place, (kind, colour) in enumerate(colours.items()):
        row, column = divmod(place, _LEGEND_COLUMNS)
        x, y = _LABELS + column * _BARS // _LEGEND_COLUMNS, top + row * _ROW
        parts.append(element("rect", x=str(x), y=str(y - 6), width="12", height="12", fill=colour))
        parts.append(_text(kind, x + 18, y))
    return parts


def _text(text: str, x: float, y: float, anchor: str = "start") -> Element:
    shown = text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"
    place = {"x": f"{x:.1f}", "y": f"{y:g}"}
    name = [element("title", text[:1000])] if shown != text else []
    return element("text", shown, *name, fill="currentColor", dominant_baseline="central", text_anchor=anchor, **place)
