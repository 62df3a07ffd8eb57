"""The records of an event file (TFRecord): length, its checksum, data, its checksum; little endian.

The checksum of every length is checked: after a damaged one nothing that follows can be found. That of the data takes
Python as long as all else, so it is checked near the end of a file, which is the whole of a small one: there a file
server may show zeros in place of what is being written, and a disk that was full has left a gap. Elsewhere a flipped
bit may become a wrong value. Records above 1 MiB, which hold images and hardly ever scalars, are skipped unread.
"""

from __future__ import annotations

import io
import os
import struct
from collections.abc import Iterator

from worldsize.wings.metrics.tensorboard.crc32c import masked_crc32c

_CHUNK = 1 << 20
_HEADER, _FOOTER = struct.Struct("<QI"), struct.Struct("<I")
_FRAME = _HEADER.size + _FOOTER.size
MOST_READ = 1 << 20
CHECKED = 1 << 20
"""Bytes at the end of a file whose data is checked: events of about 25 000 scalars, 0.1 s."""


class DamagedFile(Exception):
    """A record is not what its checksum says, so that the rest of the file cannot be understood."""


class EventRecords:
    """The records of one open file, up to its present end: one that is still being written is not there yet.

    checked     how many bytes at the end of the file have their data checked
    bytes_read  how much was read of the file, what was skipped left out
    """

    def __init__(self, descriptor: int, checked: int = CHECKED) -> None:
        self._file = io.FileIO(descriptor, closefd=False)
        self._size = os.fstat(descriptor).st_size
        self._checked_from = self._size - checked
        self._buffer = b""
        self._from = 0  # where in the file the buffer begins
        self._at = 0
        self._known: set[bytes] = set()
        self.bytes_read = 0

    def __iter__(self) -> Iterator[bytes]:
        """Raises DamagedFile, and OSError of a failing disk."""
        while self._has(_HEADER.size):
            length = self._length()
            if length > MOST_READ:
                if not self._skip(length + _FRAME):
                    return
            elif self._has(length + _FRAME):
                start = self._at + _HEADER.size
                data = self._buffer[start : start + length]
                if self._from + start >= self._checked_from:
                    self._check(data, start + length)
                self._at = start + length + _FOOTER.size
                yield data
            else:
                return

    def _check(self, data: bytes, end: int) -> None:
        if masked_crc32c(data) != _FOOTER.unpack_from(self._buffer, end)[0]:
            raise DamagedFile

    def _length(self) -> int:
        """Return the length of the next record, whose checksum is right."""
        header = self._buffer[self._at : self._at + _HEADER.size]
        length, checksum = _HEADER.unpack(header)
        if header not in self._known:
            if masked_crc32c(header[:8]) != checksum:
                raise DamagedFile
            if len(self._known) < 4096:
                self._known.add(header)
        return int(length)

    def _has(self, count: int) -> bool:
        """Return whether so many bytes follow, which then are in the buffer."""
        if len(self._buffer) - self._at >= count:
            return True
        rest = [self._buffer[self._at :]]
        have = len(rest[0])
        while have < count:
            more = self._file.read(_CHUNK)
            if not more:
                break
            rest.append(more)
            have += len(more)
            self.bytes_read += len(more)
        self._from += self._at
        self._buffer, self._at = b"".join(rest), 0
        return have >= count

    def _skip(self, count: int) -> bool:
        """Go on after so many bytes; False where the file ends before."""
        beyond = count - (len(self._buffer) - self._at)
        if beyond <= 0:
            self._at += count
            return True
        if self._file.tell() + beyond > self._size:
            return False
        self._from = self._file.seek(beyond, os.SEEK_CUR)
        self._buffer, self._at = b"", 0
        return True
