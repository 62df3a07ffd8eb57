"""How many bytes others may make us write: of a download, and of what an archive holds.

A download has the limit that its job says (`max_size`), or none. So has an archive; without one, and unless its content
is known by a checksum, it may grow `MAX_UNPACK_RATIO` times, and to `MIN_UNPACK_LIMIT` in any case.
"""

from __future__ import annotations

from worldsize.common.numbers import bytes_text
from worldsize.errors import UsageError

MAX_UNPACK_RATIO = 200
MIN_UNPACK_LIMIT = 1 << 30


class SizeLimitError(UsageError):
    """More than may be written."""


class SizeLimit:
    """Counts what is written. SizeLimitError, at `where`, once that is more than `most`; None: it may be any number."""

    def __init__(self, most: int | None, where: str, what: str = "", hint: str | None = None) -> None:
        self._most = most
        self._refusal = SizeLimitError(what, where, hint)
        self._count = 0

    def add(self, count: int) -> None:
        self._count += count
        self.check(self._count)

    def check(self, count: int) -> None:
        """So many bytes are there, or are said to come."""
        if self._most is not None and count > self._most:
            raise self._refusal


def download_limit(max_size: int | None, where: str) -> SizeLimit:
    what = f"is larger than max_size, {bytes_text(max_size or 0)}"
    return SizeLimit(max_size, where, what, "set a larger max_size if this is the right file")


def unpack_limit(size: int, known: bool, max_size: int | None, where: str) -> SizeLimit:
    """Of an archive of `size` bytes; `known`: a checksum says what is in it."""
    if max_size is not None:
        what = f"unpacks to more than max_size, {bytes_text(max_size)}"
        return SizeLimit(max_size, where, what, "set a larger max_size if you trust it")
    if known:
        return SizeLimit(None, where)
    most = max(MIN_UNPACK_LIMIT, MAX_UNPACK_RATIO * size)
    what = "unpacks to more than {}, {}".format(
        bytes_text(most),
        f"{MAX_UNPACK_RATIO} times its own size"
        if most > MIN_UNPACK_LIMIT
        else f"and was fetched as {bytes_text(size)}",
    )
    return SizeLimit(most, where, what, "if you trust it, set its sha256, or allow the size with max_size")
