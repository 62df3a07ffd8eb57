"""Access to the files of a code directory that is safe against other users who can write somewhere in it.

Each directory on the way is opened from the one above it, and neither a directory nor the file may be a link. A link
that the scan has followed is opened at the real path that it led to.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

from worldsize.common.atomic_files import Descriptor, printable_text
from worldsize.errors import SnapshotError
from worldsize.trust.links import THROUGH, open_below

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
_MISSING_ERRORS = frozenset((errno.ENOENT, errno.ENOTDIR, errno.ELOOP))


class CodeFiles:
    """The files of the code directory `root`, a real path, opened safely. `followed` contains, by relative path, the
    real paths of files that are outside `root`."""

    def __init__(self, root: str, followed: Mapping[str, str] | None = None) -> None:
        self._root = root
        self._followed = followed or {}
        self._top = os.open(root, THROUGH)
        self._last = ("", os.dup(self._top))

    def close(self) -> None:
        os.close(self._top)
        os.close(self._last[1])

    def open_directory(self, relative: str) -> int | None:
        """Return a descriptor for listing the directory `relative` of the code; None if it no longer exists. Raise
        SnapshotError if it cannot be read."""
        return self._open(relative, _DIRECTORY)

    def open_file(self, relative: str) -> int | None:
        """Return a descriptor for reading the file `relative` of the code; None if it no longer exists, or was replaced
        by a link or the like. Opening never waits for the other end of a pipe. Raise SnapshotError if the file cannot
        be read."""
        elsewhere = self._followed.get(relative)
        if elsewhere is None:
            return self._open(relative, _FILE)
        above, name = os.path.split(elsewhere)
        try:
            with Descriptor(open_below(above)) as place:
                return os.open(name, _FILE, dir_fd=place)
        except OSError as error:
            _refuse_unless_gone(error, elsewhere)
            return None

    def _open(self, relative: str, flags: int) -> int | None:
        above, _, name = relative.rpartition("/")
        try:
            if above != self._last[0]:
                place = open_below(above, self._top)
                os.close(self._last[1])
                self._last = (above, place)
            return os.open(name or ".", flags, dir_fd=self._last[1])
        except OSError as error:
            _refuse_unless_gone(error, f"{self._root}/{relative}" if relative else self._root)
            return None


def _refuse_unless_gone(error: OSError, path: str) -> None:
    if error.errno not in _MISSING_ERRORS:
        raise snapshot_read_error(error, path) from None


def snapshot_read_error(error: OSError, path: str) -> SnapshotError:
    return SnapshotError(
        f"cannot read it: {os.strerror(error.errno or 0)}",
        printable_text(path),
        "make it readable, or name it in .amlignore",
    )
