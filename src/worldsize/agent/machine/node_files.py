"""Small files and folders of a machine, as probes read them.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

from worldsize.common.atomic_files import read_if_possible

_MOST_NAMES = 20_000


def names_in(directory: str) -> list[str]:
    """Return the names in a directory, sorted; none where it cannot be read, and not all where it has no end."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry, _ in zip(entries, range(_MOST_NAMES)))
    except OSError:
        return []


def text_of(path: str, most: int = 1 << 20) -> str:
    """What a file begins with, without blanks around it; "" where it cannot be read."""
    return read_if_possible(path, most).decode("utf-8", "replace").strip("\0\n ")
