"""Questions of people who are new, where the documentation answers them, and what they would search for."""

from __future__ import annotations

from typing import NamedTuple


class Question(NamedTuple):
    """A question.

    text    as a person asks it
    search  what the person types into the site's search
    pages   that answer it, below docs/; one of them is among the first results
    answer  words on one of these pages
    """

    text: str
    search: str
    pages: tuple[str, ...]
    answer: str


QUESTIONS = ()
