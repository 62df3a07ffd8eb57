"""Reader of one rank's log file, which reads it as it grows."""

from __future__ import annotations

import os
import stat

from worldsize.common.atomic_files import IRREGULAR_FILE, open_regular_file
from worldsize.errors import StorageError
from worldsize.logs.text import cut_long, last_state, split_lines, to_text

CHUNK = 1 << 20
PROGRESS_EVERY = 1.0


def log_read_error(path: str, error: OSError) -> StorageError:
    return StorageError(f"cannot read the log: {error.strerror or error}", where=path)


def read_at(path: str, offset: int, size: int) -> bytes:
    """Return up to `size` bytes of the log file `path` from `offset` on; none if the file is gone, or if `size` is
    negative, as for a file that was emptied since. Raise StorageError if the file cannot be read."""
    try:
        fd = open_regular_file(path)
        try:
            return os.pread(fd, max(0, size), offset)
        finally:
            os.close(fd)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise log_read_error(path, error) from error


def file_size(path: str) -> int:
    """Return the size of the log file `path` in bytes; 0 if it does not exist. Raise StorageError if that cannot be
    found, or if it is no regular file."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError as error:
        raise log_read_error(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise StorageError(f"cannot read the log: {IRREGULAR_FILE}", where=path)
    return status.st_size


class RankLog:
    """Reader of a file's new bytes, a limited number at a time. It holds no descriptor between reads.

    The file may not exist yet. A file that became shorter than what was read is read again from its start.

    offset  number of bytes read so far
    """

    __slots__ = ("_partial", "_rewriting", "_shown", "_since", "offset", "path")

    def __init__(self, path: str, offset: int = 0) -> None:
        self.path = path
        self.offset = offset
        self._partial = b""
        self._rewriting = False
        self._since = 0.0
        self._shown: str | None = None

    def read(self, now: float = 0.0, limit: int = CHUNK) -> list[str]:
        """Return the lines of the rank's log that are complete in at most `limit` new bytes, as text that is safe to
        show.

        A line without a newline is held back until it arrives, with two exceptions. The part of it that exceeds 64 KiB
        is returned in pieces. The latest state of a progress bar (a line rewritten with carriage returns) is returned
        as a line once a second of `now`, and not again at its end if it is still the same.
        """
        size = file_size(self.path)
        if size == self.offset:
            return self._progress(now) if self._rewriting else []
        lines = self.close() if size < self.offset else []
        lines += self._feed(self._take(size, limit), now)
        return lines + self._progress(now) if self._rewriting else lines

    def read_bytes(self) -> bytes:
        """Return the next new bytes of the rank's log, unchanged, at most 1 MiB; empty if there are none. Do not mix
        this with `read`."""
        size = file_size(self.path)
        return self._take(size, CHUNK) if size != self.offset else b""

    def close(self) -> list[str]:
        """Return the text that `read` holds back, after the last newline of the log, as the last line, in pieces if it
        is long; none if it was returned already. Bytes that are written later begin a new line."""
        pieces, rest = cut_long(last_state(self._partial))
        lines = [*pieces, to_text(rest)] if self._partial else []
        if self._shown is not None and lines == [self._shown]:
            lines = []
        self._forget(b"")
        return lines

    def _take(self, size: int, limit: int) -> bytes:
        if size < self.offset:
            self.offset = 0
        data = read_at(self.path, self.offset, min(limit, size - self.offset))
        self.offset += len(data)
        return data

    def _feed(self, data: bytes, now: float) -> list[str]:
        block, newline, rest = (self._partial + data).rpartition(b"\n")
        lines: list[str] = []
        if newline:
            lines = split_lines(block)
            if self._shown is not None and lines[0] == self._shown:
                del lines[0]
            self._forget(rest)
        else:
            self._partial = rest
        if b"\r" in self._partial:
            end = b"\r" if self._partial.endswith(b"\r") else b""
            self._partial = last_state(self._partial) + end
            if not self._rewriting:
                self._rewriting, self._since = True, now
        pieces, self._partial = cut_long(self._partial)
        return lines + pieces

    def _forget(self, partial: bytes) -> None:
        self._partial, self._rewriting, self._shown = partial, False, None

    def _progress(self, now: float) -> list[str]:
        if now - self._since < PROGRESS_EVERY:
            return []
        state = to_text(last_state(self._partial))
        if state == self._shown or not state.strip():
            return []
        self._since, self._shown = now, state
        return [state]
