"""Limits for the number of bytes that other parties can make worldsize write: the size of a download, and of the
content of an archive.

A download is limited by the `max_size` of its job, or not at all. The content of an archive has the same limit. Without
one, and unless its content is known by a checksum, an archive may grow to `MAX_UNPACK_RATIO` times its size, and to
`MIN_UNPACK_LIMIT` in any case.
"""

from __future__ import annotations

from worldsize.common.numbers import bytes_text
from worldsize.errors import UsageError

MAX_UNPACK_RATIO = 200
MIN_UNPACK_LIMIT = 1 << 30


class SizeLimitError(UsageError):
    """An error: there are more bytes than may be written."""


class SizeLimit:
    """A counter of the bytes that are written. SizeLimitError, located at `where`, is raised once they are more than
    `most`; None means no limit."""

    def __init__(self, most: int | None, where: str, what: str = "", hint: str | None = None) -> None:
        self._most = most
        self._refusal = SizeLimitError(what, where, hint)
        self._count = 0

    def add(self, count: int) -> None:
        self._count += count
        self.check(self._count)

    def check(self, count: int) -> None:
        """Raise SizeLimitError if `count`, a number of bytes that are here or announced, is more than the limit."""
        if self._most is not None and count > self._most:
            raise self._refusal


def download_limit(max_size: int | None, where: str) -> SizeLimit:
    what = f"is larger than max_size, {bytes_text(max_size or 0)}"
    return SizeLimit(max_size, where, what, "set a larger max_size if this is the right file")


def unpack_limit(size: int, known: bool, max_size: int | None, where: str) -> SizeLimit:
    """Return the SizeLimit for the content of an archive of `size` bytes: `max_size` if it is set, no limit if a
    checksum determines the content (`known`), else 200 times `size`, and at least 1 GiB."""
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
