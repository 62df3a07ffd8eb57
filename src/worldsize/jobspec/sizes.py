"""Parsers for sizes in words: "500 MB", "20 GiB", or a number of bytes. All functions are pure."""

from __future__ import annotations

import re

EXAMPLE = "such as 500 MB, 20 GiB, or a number of bytes"
_SIZE = r"(?ia)([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*(?:([kmgt])(i?)b|b)?"
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


_MEMORY = r"(?ia)([0-9]{1,15}(?:\.[0-9]{1,15})?)\s*([bkmg]?)b?"


def memory_bytes_of(text: str) -> int | None:
    """Parse a size in the notation of Docker's memory options, "2g", and return it in bytes. All units are powers of
    1024. None if the text is no size, or the size is 0."""
    found = re.fullmatch(_MEMORY, text.strip())
    if found is None:
        return None
    return int(float(found[1]) * 1024 ** "bkmg".index(found[2].lower() or "b")) or None


def bytes_of(text: str) -> int | None:
    """Parse a size such as "500 MB", "20 GiB" or "1000" and return it in bytes. kB, MB, GB and TB are powers of 1000;
    KiB, MiB, GiB and TiB of 1024. None if the text is no size, or the size is 0."""
    found = re.fullmatch(_SIZE, text.strip())
    if found is None:
        return None
    number, unit, binary = found.groups()
    factor = (1024 if binary else 1000) ** _POWERS[unit.lower()] if unit else 1
    return int(float(number) * factor) or None
