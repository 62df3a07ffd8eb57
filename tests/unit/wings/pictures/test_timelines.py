"""Timelines: bars where the times say, in the colour of their kind; any numbers and any text."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from parsed_pages import Parsed
from selection import cases

from worldsize.wings.pictures.colours import FADED, PALETTE
from worldsize.wings.pictures.rendering import render
from worldsize.wings.pictures.timeline import Span, TimelineRow, draw_timeline


def bars(rows: list[TimelineRow]) -> list[tuple[float, float, str]]:
    """Left edge, width and colour of each, without the legend."""
    parsed = Parsed(render(draw_timeline("t", rows)))
    found = [each for each in parsed.attributes_of("rect") if each["height"] != "12"]
    return [(float(each["x"] or 0), float(each["width"] or 0), each["fill"] or "") for each in found]


def texts(rows: list[TimelineRow]) -> list[str]:
    return [text for tag, text in Parsed(render(draw_timeline("t", rows))).texts if tag == "text"]


def test_bars_follow_each_other_over_the_whole_width() -> None:
    now = 1764224000.0
    rows = [TimelineRow("n0", (Span("queued", now, now + 10), Span("ranks", now + 10, now + 40)))]
    assert bars(rows) == [(190.0, 185.0, PALETTE[0]), (375.0, 555.0, PALETTE[1])]
    ticks = ["0 s", "5 s", "10 s", "15 s", "20 s", "25 s", "30 s", "35 s", "40 s"]
    assert texts(rows) == [*ticks, "n0", "queued", "ranks"]


def test_a_moment_is_seen() -> None:
    assert [width for _, width, _ in bars([TimelineRow("n", (Span("a", 0, 100), Span("b", 50, 50)))])] == [740.0, 2.0]
    assert len(bars([TimelineRow("n", (Span("a", 5, 5),))])) == 1


def test_long_times_have_larger_units() -> None:
    assert texts([TimelineRow("n", (Span("a", 0, 7200),))])[:3] == ["0 min", "15 min", "30 min"]
    assert texts([TimelineRow("n", (Span("a", 0, 40 * 86400),))])[:2] == ["0 d", "5 d"]
    assert texts([TimelineRow("n", (Span("a", 0, 150),))])[5:8] == ["75 s", "90 s", "105 s"]


def test_kinds_beyond_the_palette_are_grey_and_named_together() -> None:
    spans = tuple(Span("kind %d" % number, number, number + 1) for number in range(12))
    rows = [TimelineRow("n", spans)]
    assert [colour for _, _, colour in bars(rows)] == [*PALETTE, *[FADED] * 4]
    assert texts(rows)[-1] == "other"


def test_without_times_there_is_a_sentence() -> None:
    none = TimelineRow("n", (Span("a", math.nan, 1), Span("a", 1, math.inf), Span("a", 1e300, 1e301)))
    for rows in ([], [TimelineRow("n", ())], [none]):
        assert render(draw_timeline("Timeline", rows)) == '<p class="muted">Timeline: no times</p>'


def test_many_rows_are_counted() -> None:
    rows = [TimelineRow("n%d" % number, (Span("a", 0, 1),)) for number in range(500)]
    assert len(bars(rows)) == 400 and texts(rows)[-1] == "and 100 rows more"


def test_a_long_name_is_cut_and_there_whole_where_the_mouse_points() -> None:
    parsed = Parsed(render(draw_timeline("t", [TimelineRow("x" * 100, (Span("a", 0, 1),))])))
    assert "x" * 25 + "…" in [text for _, text in parsed.texts] and "x" * 100 in [text for _, text in parsed.texts]


@settings(max_examples=cases(40))
@given(st.lists(st.tuples(st.text(max_size=5), st.floats(), st.floats()), max_size=8))
def test_any_times_are_drawn_inside_the_picture(spans: list[tuple[str, float, float]]) -> None:
    for left, width, _ in bars([TimelineRow("n", tuple(Span(*each) for each in spans))]):
        assert 190 <= left <= 930 and 2 <= width <= 742
