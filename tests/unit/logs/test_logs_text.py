"""Bytes of a rank become text that cannot drive a terminal; long lines are cut the same way however they come."""

from __future__ import annotations

import ast
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.logs.text import (
    BOUND,
    MORE,
    cut_long,
    escape,
    escape_json,
    format_ranges,
    last_state,
    split_lines,
    split_message,
    to_text,
    without_colours,
)

DRIVING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")

TURNING = [each.encode() for each in ("\u061c", "\u200e", "\u202e", "\u2066", "\u2028")]
NASTY = st.lists(
    st.sampled_from(
        [b"\x1b", b"[", b"]", b"2J", b"31m", b";", b"\x07", b"\\", b"\x9b", b"\xc2\x9b", b"\0", b"c", b"\n", *TURNING]
    )
    | st.binary(max_size=4),
    max_size=30,
).map(b"".join)
ORDINARY = st.text(st.characters(min_codepoint=32, exclude_categories=["Cc", "Cs"]))


@given(NASTY)
def test_nothing_but_colours_reaches_the_terminal(data):
    text = to_text(data)
    assert not DRIVING.search(without_colours(text))


@given(ORDINARY.filter(lambda text: not DRIVING.search(text)) | st.just("tab\there\nnext"))
def test_ordinary_text_is_left_alone(text):
    assert to_text(text.encode()) == text


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        (b"\x1b[2J\x1b[Hgone", "gone"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b]52;never ended", "52;never ended"),
        (b"\x1b[>4;2mkeys", "keys"),
        (b"\x1bcreset", "reset"),
        (b"\x1b(B", ""),
        (b"a\0b\x08c\x7fd", "abcd"),
        (b"caf\xe9", "caf�"),
        ("naïve ×8 ✓ “–” שלום".encode(), "naïve ×8 ✓ “–” שלום"),
        ("\u202eexe.\u2066gpj\u2069\u2028x".encode(), "exe.gpjx"),
    ],
)
def test_escape_sequences(raw, shown):
    assert to_text(raw) == shown


@given(st.text() | st.sampled_from(["\x1b[2J\n", "\x9b2J\r\n", "a\u202eb", "\ttab", "\x7f"]))
def test_what_is_escaped_is_one_line_and_the_same_text(text):
    shown = escape(text)
    assert not DRIVING.search(shown) and "\n" not in shown
    assert "\\" in text or "\ud800" <= max(text, default="") <= "\udfff" or read(shown) == text


def read(shown):
    """As Python reads it in a string."""
    return re.sub(r"\\(?:x..|u....|n|r)", lambda found: ast.literal_eval("'%s'" % found[0]), shown)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_json_that_is_escaped_says_the_same(text):
    shown = escape_json(json.dumps(text, ensure_ascii=False))
    assert not DRIVING.search(shown) and json.loads(shown) == text


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one", ["one"]),
        ("one\n  two", ["one", "  two"]),
        ("one\nforged", ["one", "  forged"]),
        ("one\r\n\n  → forged\x1b[8m", ["one", "", "    → forged\\x1b[8m"]),
        ("", [""]),
    ],
)
def test_lines_of_a_message(text, lines):
    assert split_message(text) == lines


@pytest.mark.parametrize(
    ("line", "state"),
    [
        (b"plain", b"plain"),
        (b"windows\r", b"windows"),
        (b"\r 1%\r 2%", b" 2%"),
        (b"\r 1%\r 2%\r", b" 2%"),
        (b"\r", b""),
        (b"", b""),
    ],
)
def test_a_rewritten_line_shows_its_last_state(line, state):
    assert last_state(line) == state


@given(st.integers(0, 3 * BOUND), st.sampled_from(["a", "é", "✓", "🙂"]), st.integers(0, 3))
def test_long_lines_come_in_pieces_and_lose_nothing(length, character, shift):
    text = "x" * shift + character * (length // len(character.encode()))
    pieces, rest = cut_long(text.encode())
    assert "".join(piece.removesuffix(MORE) for piece in pieces) + rest.decode() == text
    assert all(piece.endswith(MORE) and BOUND - 4 < len(piece[:-1].encode()) <= BOUND for piece in pieces)
    assert len(rest) <= BOUND


def test_a_long_line_among_short_ones():
    lines = split_lines(b"a\n" + b"b" * (2 * BOUND + 1) + b"\nc\r\nd")
    assert lines == ["a", "b" * BOUND + MORE, "b" * BOUND + MORE, "b", "c", "d"]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([3], "3"), ([0, 1], "0,1"), ([0, 1, 2, 5], "0-2,5"), ([1, 3, 4, 5, 6, 8, 9], "1,3-6,8,9")],
)
def test_compact(numbers, text):
    assert format_ranges(numbers) == text
