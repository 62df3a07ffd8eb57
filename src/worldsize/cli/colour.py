"""Colour, for people at a terminal who have not asked for none (https://no-color.org)."""

from __future__ import annotations

import os
import re

from worldsize.common.named_tuple import TextIO

RED, GREEN, YELLOW = "31", "32", "33"
_STATES = {"SUCCEEDED": GREEN, "FAILED": RED, "LOST": RED, "CANCELLED": YELLOW, "STOPPING": YELLOW}
_COLOURED = r"(\x1b\[(?:{})m[A-Z]+\x1b\[0m)".format("|".join((RED, GREEN, YELLOW)))


def has_colours(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint_state(state: str, stream: TextIO) -> str:
    """The state's name in its colour."""
    return f"\x1b[{_STATES[state]}m{state}\x1b[0m" if state in _STATES and has_colours(stream) else state


def split_painted(text: str) -> list[str]:
    """The text in pieces, of which every second one is as `paint_state` makes them."""
    return re.split(_COLOURED, text)
