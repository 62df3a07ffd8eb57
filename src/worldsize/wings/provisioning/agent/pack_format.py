"""The format of a packed environment: what `worldsize env pack` writes and nodes unpack.

A GNU tar file, cut into gzip members of a few MiB each. The header of each member states the member's length, so that
several threads can inflate the file. `tar xzf` can unpack it too. The first file in the archive describes it.

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
    """A function that returns the next bytes: at least one and at most the given number, b"" at the end. May block.
    Raises OSError or PreparationStopped."""

DESCRIPTION = "worldsize-pack.json"
VERSION = 1
PIECE = 4 << 20
"""The number of bytes of the tar file in one gzip member."""

BASE = ".base"
"""The directory in the pack for the Python installation of a virtual environment, if that is packed too."""

_AHEAD = 16
_LEVEL = 3
"""The zlib compression level."""

HEADER = 24
_MAGIC = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff"
_MARK = b"WS\x08\0"
_LARGEST_PIECE = 4 * PIECE
_LONGEST = _LARGEST_PIECE + (1 << 20)
"""The largest length of a whole member in bytes. Data that cannot be compressed grows by a thousandth."""

ENVIRONMENT_MARK = "@WORLDSIZE_ENVIRONMENT@"
"""A placeholder for the path of an environment that exists only as a packed file."""


def is_sha256(text: object) -> bool:
    """Return whether `text` is a string of 64 lower-case hexadecimal digits, as a SHA-256 is written, and is therefore
    safe as part of a path."""
    return isinstance(text, str) and len(text) == 64 and not text.strip("0123456789abcdef")


def make_member(data: bytes, level: int = _LEVEL) -> bytes:
    """Return a gzip member, as bytes, that contains `data` compressed at `level`, with the length of the whole member
    in the extra field of its header."""
    packer = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(data) + packer.flush()
    length = HEADER + len(body) + 8
    tail = zlib.crc32(data).to_bytes(4, "little") + len(data).to_bytes(4, "little")
    return _MAGIC + b"\x0c\0" + _MARK + length.to_bytes(8, "little") + body + tail


def member_length(header: bytes) -> int | None:
    """Return the length in bytes of the gzip member that begins with `header`, its first HEADER bytes; None if `header`
    is not that of a member that worldsize writes."""
    if header[:10] != _MAGIC or header[12:16] != _MARK:
        return None
    length = int.from_bytes(header[16:24], "little")
    return length if HEADER + 8 < length < _LONGEST else None


def member_content(whole: bytes, bounded: bool = False) -> bytes:
    """Return the inflated content of a gzip member, which is passed as `whole`. Raise ValueError if the member is
    damaged, or states a larger content than any that worldsize writes. With `bounded`, which takes ten times as long,
    no more than the stated content is ever inflated into memory."""
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
    """Yield the inflated contents of the gzip members of a packed environment, in order; the threads of `pool` inflate
    them. `read` returns the file's next bytes. `digested` is a hash that is updated with the members as they are,
    before they are inflated."""
    return map_ahead(pool, member_content, _members(read, digested), _AHEAD)


def bounded_contents(read: Read) -> Iterator[bytes]:
    """Yield the inflated contents of the gzip members of a packed environment from an unknown source, one by one, with
    a bound on the size of each. `read` returns the file's next bytes."""
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
    """The tar file inside the gzip members, as a stream of bytes."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")

    def take(self, count: int) -> bytes:
        """Read exactly `count` bytes of the tar file and return them. Raise ValueError if the file ends before."""
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
        """Read the rest of the tar file, to the last gzip member, and discard it."""
        for _ in self._pieces:
            pass
