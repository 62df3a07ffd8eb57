"""Numbers that people and programs write as text.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

MAX_DIGITS = 15
"""Nobody means a longer number; Python refuses to read one of more than 4300 digits."""


def parse_digits(text: str | None) -> int | None:
    """The number that ASCII digits spell, at most MAX_DIGITS of them; None for any other text. `str.isdigit` takes "²"
    for a digit, and `int` takes "1_0", "+1" and the digits of every script."""
    if not text or len(text) > MAX_DIGITS or not text.isascii() or not text.isdigit():
        return None
    return int(text)
