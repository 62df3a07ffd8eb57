"""Tables that fit where they are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.cli.table import shorten, table

HEADERS = ["RUN", "NAME", "STATE", "AGE"]
ROWS = [["20261128-120502-219kaj", "a-long-name-of-a-training-run", "SUCCEEDED", "3 min"], ["x", "y", "z", ""]]


def test_as_wide_as_it_is_for_another_program() -> None:
    assert table(ROWS, HEADERS) == [
        "RUN                     NAME                           STATE      AGE",
        "20261128-120502-219kaj  a-long-name-of-a-training-run  SUCCEEDED  3 min",
        "x                       y                              z",
    ]


def test_the_widest_columns_are_shortened_in_their_middle() -> None:
    lines = table(ROWS, HEADERS, whole=["STATE", "AGE"], width=60)
    assert lines[1] == "20261128-120502-219kaj  a-long-na…ning-run  SUCCEEDED  3 min"
    assert max(map(len, lines)) <= 60


def test_what_has_no_room_is_left_out_in_the_order_that_is_said() -> None:
    assert table(ROWS, HEADERS, whole=["STATE", "AGE"], optional=["AGE"], width=42)[0].split() == [
        "RUN",
        "NAME",
        "STATE",
    ]
    narrow = table(ROWS, HEADERS, whole=["STATE", "AGE"], optional=["AGE", "NAME"], width=36)
    assert narrow[0].split() == ["RUN", "STATE"]


@pytest.mark.parametrize(
    ("text", "width", "shown"), [("abcdef", 6, "abcdef"), ("abcdef", 5, "ab…ef"), ("abcdef", 4, "ab…f"), ("", 3, "")]
)
def test_shorten(text: str, width: int, shown: str) -> None:
    assert shorten(text, width) == shown


CELLS = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=40)


@given(rows=st.lists(st.lists(CELLS, min_size=4, max_size=4), max_size=6), width=st.integers(30, 200))
def test_no_line_is_wider_where_the_columns_can_be_cut(rows: list[list[str]], width: int) -> None:
    """The first column is whole: it has what is left once all others are as narrow as they may be."""
    rows = [[row[0][: width - 24], *row[1:]] for row in rows]
    lines = table(rows, HEADERS, width=width)
    assert len(lines) == len(rows) + 1 and all(len(line) <= width for line in lines)
