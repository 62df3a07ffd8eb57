"""Parser of the sizes of a sweep, such as `8B:1GB`. As in nccl-tests, K, M and G are powers of 1024."""

from __future__ import annotations

import re

from worldsize.errors import UsageError

_SIZE = re.compile(r"(\d{1,15})\s*([kmg]?)(i?)(b?)", re.IGNORECASE | re.ASCII)
_POWERS = {"": 0, "k": 10, "m": 20, "g": 30}
_LARGEST = 1 << 40
_MOST = 200
_EXAMPLE = "write a range such as 8B:1GB, or sizes such as 8B,1MB,512MB"


def parse_sizes(text: str, factor: int) -> tuple[int, ...]:
    """Parse the sizes of an all-reduce sweep, ranges and lists such as `8B:1GB` or `8B,1MB`. Return the sizes in bytes,
    ascending. In a range, each size is `factor` times the previous one. Raise UsageError for a text that is not a size,
    for a range that ends before it begins, for a `factor` below 2, and for more than 200 sizes."""
    if factor < 2:
        raise UsageError(f"{factor} does not make a range", "--factor", "2 or more")
    found: set[int] = set()
    for part in text.split(",")[: _MOST + 1]:
        found.update(_sizes_of(part, factor))
    if len(found) > _MOST:
        raise UsageError(f"more than {_MOST} sizes", "--sizes", _EXAMPLE)
    return tuple(sorted(found))


def _sizes_of(part: str, factor: int) -> list[int]:
    first, colon, last = part.partition(":")
    size = parse_size(first)
    most = parse_size(last) if colon else size
    if most < size:
        raise UsageError(f"{part.strip()!r:.60} ends before it begins", "--sizes", _EXAMPLE)
    found = []
    while size <= most:
        found.append(size)
        size *= factor
    return found


def parse_size(text: str) -> int:
    """Parse one size, such as `64MB`, and return it in bytes. Raise UsageError for a text that is not a size, for 0,
    and for more than a tebibyte."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text.strip()!r:.60} is not a size", "--sizes", _EXAMPLE)
    size = int(match[1]) << _POWERS[match[2].lower()]
    if not 0 < size <= _LARGEST:
        raise UsageError(f"{text.strip()!r:.60}: at least 1 B, at most {_LARGEST >> 30} GB", "--sizes", _EXAMPLE)
    return size
