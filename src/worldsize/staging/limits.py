"""How many bytes others may make us write: of a download, and of what an archive holds.

A download has the limit that its job says (`max_size`), or none. So has an archive; without one, and unless its content
is known by a checksum, it may grow `RATIO` times, and to `FLOOR` in any case.
"""

from __future__ import annotations

from worldsize.errors import UsageError
from worldsize.staging.content_store import bytes_text

RATIO = 200
FLOOR = 1 << 30


class TooLarge(UsageError):
    """More than may be written."""


class Limit:
    """Counts what is written. TooLarge, at `where`, once that is more than `most`; None: it may be any number."""

    def __init__(self, most: int | None, where: str, what: str = "", hint: str | None = None) -> None:
        self._most = most
        self._refusal = TooLarge(what, where, hint)
        self._count = 0

    def add(self, count: int) -> None:
        self._count += count
        self.check(self._count)

    def check(self, count: int) -> None:
        """So many bytes are there, or are said to come."""
        if self._most is not None and count > self._most:
            raise self._refusal


def limit_download(max_size: int | None, where: str) -> Limit:
    what = "is larger than max_size, %s" % bytes_text(max_size or 0)
    return Limit(max_size, where, what, "say a larger max_size if that is the file that you want")


def limit_unpacking(size: int, known: bool, max_size: int | None, where: str) -> Limit:
    """Of an archive of `size` bytes; `known`: a checksum says what is in it."""
    if max_size is not None:
        what = "unpacks to more than max_size, %s" % bytes_text(max_size)
        return Limit(max_size, where, what, "say a larger max_size if you trust it")
    if known:
        return Limit(None, where)
    most = max(FLOOR, RATIO * size)
    what = "unpacks to more than %s, %s" % (
        bytes_text(most),
        "%d times its own size" % RATIO if most > FLOOR else "and was fetched as %s" % bytes_text(size),
    )
    return Limit(most, where, what, "if you trust it, give its sha256, or say how much it may be with max_size")
