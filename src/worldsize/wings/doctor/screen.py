"""The rows of the doctor as lines of text: yes, no or unknown, and below each no the fix."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from worldsize.cli.output import state_text
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow

_WORDS = {OK: "yes", WARNING: "no", BAD: "no", UNKNOWN: "unknown"}
_WIDTH = max(map(len, _WORDS.values()))


def screen_lines(rows: Sequence[CheckRow]) -> list[str]:
    return list(_lines(rows, max((len(row.id) for row in rows), default=0)))


def _lines(rows: Sequence[CheckRow], width: int) -> Iterator[str]:
    for row in rows:
        word = _WORDS[row.verdict]
        yield f"{state_text(word, sys.stdout)}{' ' * (_WIDTH - len(word))}  {row.id:<{width}}  {row.what}: {row.value}"
        if row.hint and row.verdict != OK:
            yield f"{' ' * (_WIDTH + width + 4)}→ {row.hint}"
