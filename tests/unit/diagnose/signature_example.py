"""A line that a signature knows."""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """`near_miss`: has the line's words, and says something else; `raised`: both are texts of uncaught exceptions."""

    id: str
    line: str
    near_miss: str
    raised: bool = False
