"""Functions for the texts of a page: they limit lengths, mask secrets, and write times and sizes in words."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone

from worldsize.common.atomic_files import open_regular_file
from worldsize.common.json_values import is_number
from worldsize.common.named_tuple import Any
from worldsize.common.numbers import size_text
from worldsize.state.exit_records import signal_name

_CELL = 500
"""The largest number of characters of a value in a table."""


def time_text(seconds: Any) -> str:
    """Return a Unix time as text, such as "2026-11-27 06:34:10 UTC"; "" if the value is no valid time."""
    if not is_number(seconds) or seconds <= 0:
        return ""
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):
        return ""  # after the last year that datetime supports


def code_text(code: int) -> str:
    """Return an exit code in words: "0", "1", "137 (SIGKILL)"."""
    name = signal_name(code)
    return f"{code} ({name})" if name else str(code)


def value_text(value: Any, most: int = _CELL) -> str:
    """Return a JSON value as text of at most `most` characters; "" for None."""
    text = "" if value is None else value if isinstance(value, str) else str(value)
    return shorten(text, most)


def shorten(text: str, most: int = _CELL) -> str:
    """Return the first `most` characters of `text`. If `text` is longer, append the number of characters that are left
    out."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text) - most} more characters)"


def filled_columns(headers: Sequence[str], rows: list[list[Any]]) -> tuple[list[str], list[list[Any]]]:
    """Return the headers and rows of a table without the columns whose cells are "" in every row."""
    kept = [place for place in range(len(headers)) if any(row[place] != "" for row in rows)]
    return [headers[place] for place in kept], [[row[place] for place in kept] for row in rows]


def pairs_of(value: Any, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (label, text) for each key of `names` that the JSON object `value` has, in the order of `names`, which
    maps keys to labels. None and "" count as missing."""
    found = value if isinstance(value, dict) else {}
    return [(words, value_text(found[name])) for name, words in names.items() if found.get(name) not in (None, "")]


def read_text(path: str, most: int, mask: Callable[[str], str]) -> str:
    """Return the first `most` bytes of a regular file as text in which `mask` has masked secrets, followed by the
    number of bytes that are left out. Raise OSError."""
    with open(open_regular_file(path), "rb") as file:
        size, data = os.fstat(file.fileno()).st_size, file.read(most)
    if size <= len(data):
        return mask(data.decode("utf-8", "replace"))
    whole = data[: data.rfind(b"\n") + 1]  # a truncated secret would not be recognised
    return mask(whole.decode("utf-8", "replace")) + f"… ({size_text(size - len(whole))} more)"
