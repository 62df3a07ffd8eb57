"""The records of an event file (TFRecord): length, its checksum, data, its checksum; little endian.

The checksum of every length is verified: after a damaged length, no further record can be found. Verifying the checksum
of the data takes Python as much time as everything else, so it is verified only near the end of a file, which includes
all of a small file. There a file server may show zeros in place of data that is being written, and a full disk may have
left a gap. Elsewhere a flipped bit may become a wrong value. Records above 1 MiB, which contain images and hardly ever
scalars, are skipped unread.
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
"""The number of bytes at the end of a file whose data is verified: events of about 25 000 scalars, 0.1 s."""


class DamagedFile(Exception):
    """The error for a record that does not match its checksum, so that the rest of the file cannot be understood."""


class EventRecords:
    """The records of one open file, up to its present end. A record that is still being written is not included.

    checked     the number of bytes at the end of the file whose data is verified
    bytes_read  the number of bytes that were read of the file, without skipped ones
    """

    def __init__(self, descriptor: int, checked: int = CHECKED) -> None:
        self._file = io.FileIO(descriptor, closefd=False)
        self._size = os.fstat(descriptor).st_size
        self._checked_from = self._size - checked
        self._buffer = b""
        self._from = 0  # the position in the file at which the buffer begins
        self._at = 0
        self._known: set[bytes] = set()
        self.bytes_read = 0

    def __iter__(self) -> Iterator[bytes]:
        """Yield the data (bytes) of each record of the event file. Raise DamagedFile if a checksum is wrong, and
        OSError if the disk fails."""
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
        """Return the length of the next record of the event file in bytes. Raise DamagedFile if the checksum of the
        length is wrong."""
        header = self._buffer[self._at : self._at + _HEADER.size]
        length, checksum = _HEADER.unpack(header)
        if header not in self._known:
            if masked_crc32c(header[:8]) != checksum:
                raise DamagedFile
            if len(self._known) < 4096:
                self._known.add(header)
        return int(length)

    def _has(self, count: int) -> bool:
        """Return whether at least `count` more bytes of the file can be read. If so, they are in the buffer
        afterwards."""
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
        """Skip `count` bytes of the event file without reading them; return whether the file has that many."""
        beyond = count - (len(self._buffer) - self._at)
        if beyond <= 0:
            self._at += count
            return True
        if self._file.tell() + beyond > self._size:
            return False
        self._from = self._file.seek(beyond, os.SEEK_CUR)
        self._buffer, self._at = b"", 0
        return True
