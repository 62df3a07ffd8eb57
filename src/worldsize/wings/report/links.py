"""The check for links in another user's run that lead out of it. A page of such a run could contain a file of the user
who makes and sends the page."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain

from worldsize.errors import UsageError
from worldsize.plan.array import array_of
from worldsize.plan.run_paths import RunPaths

_ENTRIES = 100_000
TRIALS = "trials.csv"
"""The file name of the table of a search's trials, in the outputs of its array."""

_UNREAD = frozenset(("code", "inrank", "outputs", "user_logs"))
"""Directories of which a page shows only names and sizes. Of an array's outputs, it also shows the table of a
search."""


def refuse_links_out(root: str) -> None:
    """Raise UsageError if a file of the run, or array, in `root` that a report page may show is a link that leads out
    of the run, or if there are too many files to check."""
    array = array_of(RunPaths(root))
    inside = os.path.realpath(array[0] if array else root)
    tables = [os.path.join(root, "outputs", TRIALS), *([RunPaths(array[0]).submission] if array else [])]
    links = chain(_links(root), filter(os.path.islink, tables))
    for number, path in enumerate(links):
        if number > _ENTRIES:
            raise UsageError(f"it is not your own run, and has more than {_ENTRIES} files", root)
        if path and not _is_below(os.path.realpath(path), inside):
            raise UsageError(
                "it is not your own run, and this link in it leads elsewhere: a page could show a file of yours",
                path,
                "copy the run without the link, and make a page of the copy",
            )


def _is_below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(os.path.join(directory, ""))


def _links(root: str) -> Iterator[str]:
    """Yield, for each file and directory below the run directory `root` that report pages may show, its path if it is a
    link, else ""."""
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue  # a directory that cannot be listed cannot be shown either
        for entry in entries:
            yield entry.path if entry.is_symlink() else ""
            if entry.is_dir(follow_symlinks=False) and entry.name not in _UNREAD:
                waiting.append(entry.path)
