"""Tables of Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with this head. The cells are Markdown; `|` in them is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| %s |" % " | ".join(_cell(each) for each in line) for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("\\|", "|").replace("|", "\\|")


def code(text: str) -> str:
    return "`%s`" % text
