"""Texts for rows: sizes, errors, and shortened lists.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from worldsize.common.atomic_files import printable_text
from worldsize.trust.secrets import mask_text

_LONGEST = 300


def join_texts(texts: Sequence[str], most: int = 3, separator: str = "; ") -> str:
    """Join the texts into one line. If there are more than `most`, use only the first ones and add the number of the
    others: "a; b; c; 2 more"."""
    more = [f"{len(texts) - most} more"] if len(texts) > most else []
    return separator.join([*texts[:most], *more])


def safe_text(text: str, most: int = _LONGEST) -> str:
    """Return the text without control characters and secrets, cut to `most` characters."""
    return mask_text(printable_text(text))[:most]


def error_words(error: OSError) -> str:
    """Return the system's message for the errno of the error, such as "No space left on device"; without an errno, the
    error's own text or its class name."""
    return os.strerror(error.errno) if error.errno else (str(error) or type(error).__name__)


def size_text(count: float) -> str:
    """Return a number of bytes as text with a unit, such as `64 MiB` or `1.5 GiB`, rounded to three digits (four from
    1000 on)."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}" if count >= 1000 else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"
