"""Tables of the command line. They are never wider than the terminal, and have their full width for another program."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from worldsize.cli.output import terminal_width

_GAP = "  "
_SHORTEST = 6
"""The minimum number of characters of a shortened cell."""

_CUT = "…"


def table(
    rows: Sequence[Sequence[str]],
    headers: Sequence[str],
    whole: Collection[str] = (),
    optional: Sequence[str] = (),
    width: int | None = None,
) -> list[str]:
    """Return the lines of a text table with aligned columns for these rows and headers. Characters that would break a
    line or the columns are escaped in its cells.

    whole     columns that are not shortened, in addition to the first; the others are shortened in their middle, the
              widest first
    optional  columns that are left out, in this order, if there is no room for all
    width     the maximum number of columns of a line; without it the terminal's, if stdout is one
    """
    cells = [[cell if cell.isprintable() else _escaped(cell) for cell in row] for row in [headers, *rows]]
    columns = [*zip(*cells, strict=True)]
    widths = {number: max(map(len, column)) for number, column in enumerate(columns)}
    most = terminal_width() if width is None else width
    if most is not None:
        kept = {number for number, header in enumerate(headers) if number == 0 or header in whole}
        left = [headers.index(header) for header in optional if header in headers]
        widths = _fitted(widths, kept, left, most)
    shown = (
        [cell.ljust(width) if len(cell) <= width else shorten(cell, width) for cell in columns[number]]
        for number, width in widths.items()
    )
    lines = zip(*shown, strict=True)
    return [_GAP.join(line).rstrip() for line in lines]


def _fitted(widths: Mapping[int, int], whole: Collection[int], optional: Sequence[int], most: int) -> dict[int, int]:
    """Return the widths of the table's columns that are shown, by column number. Columns of `optional` are left out,
    and columns that are not in `whole` shortened, so that the columns with their gaps are no wider than `most`, if that
    is possible."""
    least = {name: width if name in whole else min(width, _SHORTEST) for name, width in widths.items()}
    left = list(optional)
    while left and _line_width(least.values()) > most:
        del least[left.pop(0)]
    cut = sorted((name for name in least if name not in whole), key=lambda name: widths[name])
    room = most - _line_width(widths[name] if name in whole else 0 for name in least)
    fitted = {name: widths[name] for name in least}
    for number, name in enumerate(cut):
        fitted[name] = min(widths[name], max(room // (len(cut) - number), least[name]))
        room -= fitted[name]
    return fitted


def _line_width(widths: Iterable[int]) -> int:
    every = [*widths]
    return sum(every) + len(_GAP) * (len(every) - 1)


def shorten(text: str, width: int) -> str:
    """Return the text with its middle left out, if it is longer than `width`."""
    if len(text) <= width:
        return text
    head = width // 2
    return text[:head] + _CUT + text[len(text) - (width - head - 1) :]


def _escaped(text: str) -> str:
    from worldsize.logs.text import escape

    return escape(text).replace("\t", "\\t")
