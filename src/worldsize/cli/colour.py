"""Colour, for people at a terminal who have not asked for none (https://no-color.org)."""

from __future__ import annotations

import os
from typing import TextIO

RED, GREEN, YELLOW = "31", "32", "33"
_STATES = {"SUCCEEDED": GREEN, "FAILED": RED, "LOST": RED, "CANCELLED": YELLOW, "STOPPING": YELLOW}


def paint(text: str, colour: str, stream: TextIO) -> str:
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return "\x1b[%sm%s\x1b[0m" % (colour, text)


def paint_state(text: str, state: str, stream: TextIO) -> str:
    """`text` in the colour of the state."""
    return paint(text, _STATES[state], stream) if state in _STATES else text
