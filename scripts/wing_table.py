"""The table of wings in docs/explanation/architecture/wings.md: one row for each, whose words people write, and whose
lines are counted.

A number that is not off by more than a fifth stays, so that not every change is one of the table. A new wing gets a row
of question marks, which a person has to replace; a row without its wing goes.
"""

from __future__ import annotations

import re
from pathlib import Path

BEGIN, END = "<!-- wings -->\n", "<!-- end of wings -->\n"
SIMULATOR = "worldsize_hpcpack_simulator"
_ROW = re.compile(r"\| `(\w+)` \| ([\d,]+|\?) \|(.*)\|")
_TOLERANCE = 0.2
_UNKNOWN = " ? | ? | ? "


def with_wings(page: str, source: Path) -> str:
    """The page with the rows of today. `source`: src/worldsize. ValueError for a page without the table, or with a row
    that nobody has written."""
    before, begin, rest = page.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no table of wings")
    head = "".join(table.splitlines(keepends=True)[:2])
    told = {name: (lines, words) for name, lines, words in _ROW.findall(table)}
    rows = "".join(_row(name, lines, *told.get(name, ("?", _UNKNOWN))) for name, lines in _count_lines(source).items())
    return before + begin + head + rows + end + after


def unwritten(page: str) -> list[str]:
    """The wings of which the table says nothing."""
    return [name for name, _, words in _ROW.findall(page) if words == _UNKNOWN]


def _row(name: str, lines: int, said: str, words: str) -> str:
    number = int(said.replace(",", "")) if said != "?" else 0
    if abs(number - lines) > _TOLERANCE * lines:
        number = lines
    return "| `%s` | %s |%s|\n" % (name, format(number, ","), words)


def _count_lines(source: Path) -> dict[str, int]:
    """Of the Python files of each wing, and of the simulator."""
    wings = sorted(each for each in (source / "wings").iterdir() if (each / "__init__.py").is_file())
    folders = [*wings, source.parent / SIMULATOR]
    return {each.name: sum(_lines_of(file) for file in each.rglob("*.py")) for each in folders}


def _lines_of(file: Path) -> int:
    return len(file.read_bytes().splitlines())
