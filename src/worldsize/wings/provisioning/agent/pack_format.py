"""The format of a packed environment: what `worldsize env pack` writes and nodes unpack.

A tar file (GNU), cut into gzip members of a few MiB each, whose headers tell their length: several threads can unpack
them, and any `tar xzf` can too. Its first member describes it.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from worldsize.wings.provisioning.agent.map_ahead import map_ahead

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Read = Callable[[int], bytes]
    """The next bytes, at most so many and at least one; b"" at the end. May wait. Raises OSError,
    PreparationStopped."""

DESCRIPTION = "worldsize-pack.json"
VERSION = 1
PIECE = 4 << 20
"""Bytes of the tar file in one gzip member."""

BASE = ".base"
"""The directory of a virtual environment's Python in the pack, where that is packed too."""

_AHEAD = 16
_LEVEL = 3
"""The level of compression."""

HEADER = 24
_MAGIC = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff"
_MARK = b"WS\x08\0"
_LARGEST_PIECE = 4 * PIECE
_LONGEST = _LARGEST_PIECE + (1 << 20)
"""The most bytes of a whole member: what cannot be compressed becomes longer by a thousandth."""

ENVIRONMENT_MARK = "@WORLDSIZE_ENVIRONMENT@"
"""Stands for an environment that only its packed file holds."""


def is_sha256(text: object) -> bool:
    """Return whether a text is a SHA-256 in hexadecimal digits, and so can be part of a path."""
    return isinstance(text, str) and len(text) == 64 and not text.strip("0123456789abcdef")


def make_member(data: bytes, level: int = _LEVEL) -> bytes:
    """Make a gzip member of `data`, with its whole length in its header's extra field."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(data) + packer.flush()
    length = HEADER + len(body) + 8
    tail = zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")
    return _MAGIC + b"\x0c\0" + _MARK + length.to_bytes(8, "little") + body + tail


def member_length(header: bytes) -> int | None:
    """Return the length of the member that begins with these HEADER bytes; None where they are no such header."""
    if header[:10] != _MAGIC or header[12:16] != _MARK:
        return None
    length = int.from_bytes(header[16:24], "little")
    return length if HEADER + 8 < length < _LONGEST else None


def member_content(whole: bytes, bounded: bool = False) -> bytes:
    """Return what a member holds. ValueError for a damaged one; with `bounded`, which takes ten times as long, also for
    one that holds more than any that worldsize writes, before that is in memory."""
    body, length = whole[HEADER:-8], int.from_bytes(whole[-4:], "little")
    if length > _LARGEST_PIECE:
        raise ValueError("one of its parts is larger than any that worldsize writes")
    try:
        if bounded:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(body, length + 1)
        else:
            data = zlib.decompress(body, -zlib.MAX_WBITS, length or 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if zlib.crc32(data) != int.from_bytes(whole[-8:-4], "little"):
        raise ValueError("its checksum is wrong")
    return data


def contents(read: Read, digested: Any, pool: ThreadPoolExecutor) -> Iterator[bytes]:
    """Yield what the gzip members hold, in order; several threads inflate them. `digested` is a hash that is updated
    with the members as they are."""
    return map_ahead(pool, member_content, _members(read, digested), _AHEAD)


def bounded_contents(read: Read) -> Iterator[bytes]:
    """Yield the same, one by one, with a bound for what each holds: for an archive that anybody may have made."""
    return (member_content(whole, bounded=True) for whole in _members(read, hashlib.sha256()))


def _members(read: Read, digested: Any) -> Iterator[bytes]:
    while whole := _next_member(read):
        digested.update(whole)
        yield whole


def _next_member(read: Read) -> bytes:
    head = _read_bytes(read, HEADER)
    if not head:
        return b""
    length = member_length(head) if len(head) == HEADER else None
    if length is None:
        raise ValueError("one of its parts is not a gzip member that worldsize writes")
    body = _read_bytes(read, length - HEADER)
    if len(body) < length - HEADER:
        raise ValueError("it is cut off")
    return head + body


def _read_bytes(read: Read, count: int) -> bytes:
    parts = []
    while count:
        data = read(count)
        if not data:
            break
        parts.append(data)
        count -= len(data)
    return b"".join(parts)


class TarStream:
    """The tar file in the contents of the gzip members."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")

    def take(self, count: int) -> bytes:
        """Read exactly `count` bytes. ValueError where the file ends before."""
        parts: list[bytes] = []
        while count:
            if not self._piece:
                piece = next(self._pieces, b"")
                if not piece:
                    raise ValueError("it is cut off")
                self._piece = memoryview(piece)
            parts.append(bytes(self._piece[:count]))
            self._piece = self._piece[count:]
            count -= len(parts[-1])
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def drain(self) -> None:
        """Read what is left, and throw it away."""
        for _ in self._pieces:
            pass
