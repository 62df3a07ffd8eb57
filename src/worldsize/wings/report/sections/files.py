"""The files of the run directory: only their names and sizes, not their contents."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from worldsize.cli.console import count_text
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import size_text
from worldsize.wings.report.facts import Child, RunFacts
from worldsize.wings.report.text import shorten

_ROWS = 500
_ENTRIES = 50_000
_SUMMED = frozenset(("code", "inrank", "mlruns"))
"""Directories of which only the total is shown."""


class Entry(NamedTuple):
    """A file below the run directory. `path` is relative to it. `kind` is "" for a regular file."""

    path: str
    size: int
    kind: str = ""


def files(facts: RunFacts) -> list[Child]:
    rows, left = list_files(facts.paths.root)
    if not rows:
        return []
    shown = [[shorten(each.path), each.kind or size_text(each.size)] for each in rows[:_ROWS]]
    more = len(rows) - len(shown)
    remarks = [f"{count_text(more, 'more row')}."] if more else []
    remarks += ["There are more files than were counted."] if left else []
    total = f"{count_text(len(rows), 'row')}, {size_text(sum(each.size for each in rows))}"
    table = facts.pictures.table(("path", "size"), shown)
    return [facts.pictures.details(total, table, *(facts.pictures.element("p", text) for text in remarks))]


def list_files(root: str) -> tuple[list[Entry], bool]:
    """List the files below the directory `root`, sorted by path; each directory in _SUMMED is one entry with its total.
    Return the entries, and whether there are more files than were examined."""
    found: list[Entry] = []
    sums: dict[str, list[int]] = {}
    for number, (path, entry) in enumerate(_walk(root)):
        if number >= _ENTRIES:
            return sorted(found) + _sum_entries(sums), True
        top = path.partition("/")[0]
        if top in _SUMMED:
            sums.setdefault(top, []).append(entry.size)
        else:
            found.append(entry)
    return sorted(found) + _sum_entries(sums), False


def _sum_entries(sums: dict[str, list[int]]) -> list[Entry]:
    return [
        Entry(name + "/", sum(sizes), f"{count_text(len(sizes), 'file')}, {size_text(sum(sizes))}")
        for name, sizes in sorted(sums.items())
    ]


def _walk(root: str) -> Iterator[tuple[str, Entry]]:
    """Yield the relative path and the Entry of every file below `root`, without following links. Directories that
    cannot be listed are left out."""
    waiting = [""]
    while waiting:
        directory = waiting.pop()
        try:
            with os.scandir(os.path.join(root, directory)) as entries:
                for each in entries:
                    path = os.path.join(directory, each.name)
                    if each.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    else:
                        yield path, _entry(path, each)
        except OSError:
            continue  # a directory that cannot be listed is left out


def _entry(path: str, found: os.DirEntry[str]) -> Entry:
    try:
        status = found.stat(follow_symlinks=False)
    except OSError:
        return Entry(path, 0, "removed in the meantime")
    if stat.S_ISREG(status.st_mode):
        return Entry(path, status.st_size)
    return Entry(path, 0, "link" if stat.S_ISLNK(status.st_mode) else "not a regular file")
