"""One file of a job's code, read within bounds."""

from __future__ import annotations

import os
import stat

MOST_BYTES = 1 << 19
"""To parse as much takes a second."""


def read_source(path: str, root: str) -> bytes | None:
    """A file's bytes; None where it is no plain file inside `root`, too large, or cannot be read."""
    real = os.path.realpath(path)
    if not real.startswith(root.rstrip(os.sep) + os.sep):
        return None
    try:
        descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES:
            return None
        try:
            source = file.read(MOST_BYTES + 1)
        except OSError:
            return None
    return source if len(source) <= MOST_BYTES else None
