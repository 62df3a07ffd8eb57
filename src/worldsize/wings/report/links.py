"""Links in another user's run that lead out of it: whoever makes a page of the run, and sends it, would send what lies
there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain

from worldsize.errors import UsageError
from worldsize.plan.array import array_of
from worldsize.plan.run_paths import RunPaths

_ENTRIES = 100_000
TRIALS = "trials.csv"
"""The table of a search's trials, in the outputs of its array."""

_UNREAD = frozenset(("code", "inrank", "outputs", "user_logs"))
"""Of these directories a page shows names and sizes alone; of an array's outputs, the table of a search, too."""


def refuse_links_out(root: str) -> None:
    """UsageError where a file that a page of the run, or array, in `root` may show is a link to what lies elsewhere, or
    there are too many files to say so."""
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
    """Yield the path of each link, and "" for each other entry, of the files that pages may show."""
    waiting = [root]
    while waiting:
        directory = waiting.pop()
        try:
            entries = list(os.scandir(directory))
        except OSError:
            continue  # what cannot be listed cannot be shown either
        for entry in entries:
            yield entry.path if entry.is_symlink() else ""
            if entry.is_dir(follow_symlinks=False) and entry.name not in _UNREAD:
                waiting.append(entry.path)
