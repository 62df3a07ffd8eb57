"""A file of lines in a directory of the attempt, which only this process appends to.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import errno
import os

from worldsize.common.atomic_files import write_all


class LineFile:
    """A file of lines that is opened when the first line is written. `written` is the number of bytes written so
    far."""

    def __init__(self, path: str) -> None:
        self.written = 0
        self._path = path
        self._file = -1

    def append(self, lines: bytes) -> None:
        """Append the bytes `lines`, which are whole lines, to the file; open it first if needed. Raise OSError if
        writing fails, or if the file or the run's directory has been removed meanwhile."""
        if not lines:
            return
        if self._file < 0:
            self._file = _open(self._path)
        elif os.fstat(self._file).st_nlink == 0:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), self._path)
        write_all(self._file, lines)
        self.written += len(lines)


def _open(path: str) -> int:
    """Open the file at `path` for appending, and return its file descriptor. Create its directory with the mode of the
    parent directory, which must exist. The file is created with mode 0600."""
    directory = os.path.dirname(path)
    try:
        os.mkdir(directory, os.stat(os.path.dirname(directory)).st_mode & 0o777)
    except FileExistsError:
        pass  # another agent or a rank has created it
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe is refused
    return os.open(path, flags, 0o600)
