"""Texts for rows: sizes, errors, and lists of which only the first fit.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from worldsize.common.atomic_files import printable_text
from worldsize.trust.secrets import mask_text

_LONGEST = 300


def join_texts(texts: Sequence[str], most: int = 3, separator: str = "; ") -> str:
    """Return the texts in one line; of more than `most` the first, and how many there are besides: "a; b; c; 2
    more"."""
    more = [f"{len(texts) - most} more"] if len(texts) > most else []
    return separator.join([*texts[:most], *more])


def safe_text(text: str, most: int = _LONGEST) -> str:
    """Return the text without control characters and secrets, and not too long."""
    return mask_text(printable_text(text))[:most]


def error_words(error: OSError) -> str:
    """What the system calls the error: "No space left on device"."""
    return os.strerror(error.errno) if error.errno else (str(error) or type(error).__name__)


def size_text(count: float) -> str:
    """Return the bytes in words such as `64 MiB`, `1.5 GiB`; three digits."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}" if count >= 1000 else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"
