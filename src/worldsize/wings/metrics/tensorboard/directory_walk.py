"""A search for event files below a directory, in bounded time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from worldsize.wings.metrics.tensorboard.file_names import is_event_file

MOST_ENTRIES = 50_000
MOST_FILES = 2000
MOST_LEVELS = 12
_LEFT_OUT = frozenset((".git", "__pycache__", "node_modules", ".venv"))


def find_event_files(
    root: str, is_wanted: Callable[[str], bool] = lambda directory: True, entries: int = MOST_ENTRIES
) -> Iterator[str]:
    """Yield the paths of regular files below `root` that are named like TensorBoard event files, until `entries`
    entries were seen. The search goes level by level, and on each level the directories that were changed last come
    first. No link is followed.

    is_wanted  whether to look into a directory at the top level, by its name
    """
    left, files = entries, 0
    level = [root]
    for depth in range(MOST_LEVELS):
        directories: list[tuple[float, str]] = []
        for directory in level:
            for entry in _entries(directory, left):
                left -= 1
                if _is_directory(entry):
                    if entry.name not in _LEFT_OUT and (depth or is_wanted(entry.name)):
                        directories.append((_changed(entry), entry.path))
                elif is_event_file(entry.name) and _is_regular(entry):
                    files += 1
                    yield entry.path
            if left <= 0 or files >= MOST_FILES:
                return
        level = [path for _, path in sorted(directories, reverse=True)]


def _entries(directory: str, most: int) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(directory) as entries:
            for count, entry in enumerate(entries):
                if count >= most:
                    return
                yield entry
    except OSError:  # not readable, or removed meanwhile
        return


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_regular(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file(follow_symlinks=False)
    except OSError:
        return False


def _changed(entry: os.DirEntry[str]) -> float:
    try:
        return entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return 0.0
