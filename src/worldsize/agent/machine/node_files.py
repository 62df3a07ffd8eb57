"""Readers of small files and directories of a machine, for probes.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

from worldsize.common.atomic_files import read_if_possible

_MOST_NAMES = 20_000


def names_in(directory: str) -> list[str]:
    """Return the names of the entries of a directory, sorted; none if it cannot be read, and only some if it has more
    than 20,000."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry, _ in zip(entries, range(_MOST_NAMES)))
    except OSError:
        return []


def text_of(path: str, most: int = 1 << 20) -> str:
    """Return the first `most` bytes of a file as text, without blanks and line ends around it; "" if it cannot be
    read."""
    return read_if_possible(path, most).decode("utf-8", "replace").strip("\0\n ")
