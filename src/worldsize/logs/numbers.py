"""Comparison and merging of lines that differ only in numbers."""

from __future__ import annotations

import re

_NUMBER = (
    r"[-0-9](?:(?<!-)|(?<!\w-)(?=[0-9]))"  # a minus belongs to the number unless a word precedes it
    r"(?:(?<=0)x[0-9a-fA-F]+|[0-9]*(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)"
)
_PLACE = "\udc81"


def number_key(line: str) -> str:
    """Return `line` with a placeholder for each number, as a key that is equal for log lines that differ only in
    numbers. `nan` and `inf` are words, so that they are noticed."""
    return re.sub(_NUMBER, _PLACE, line)


def merge_lines(lines: list[str]) -> str:
    """Merge log lines with the same `number_key` into one and return it: the first line, with `{min..max}` where the
    numbers differ."""
    first = lines[0]
    if lines.count(first) == len(lines):
        return first
    columns = zip(*[re.findall(_NUMBER, line) for line in lines], strict=False)
    words = [_range(column) for column in columns]
    texts = re.split(_NUMBER, first)
    return "".join([text + word for text, word in zip(texts, words, strict=False)]) + texts[-1]


def _range(column: tuple[str, ...]) -> str:
    if column.count(column[0]) == len(column):
        return column[0]
    low, high = min(column, key=_value), max(column, key=_value)
    return low if _value(low) == _value(high) else f"{{{low}..{high}}}"


def _value(number: str) -> float:
    return int(number, 16) if "0x" in number else float(number)
