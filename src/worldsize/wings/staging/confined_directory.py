"""A directory that is filled under untrusted names, without touching anything outside of it.

Each directory on the way is opened relative to its parent, and none of them may be a link. Therefore a name always
means the same place, independent of earlier entries.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO

from worldsize.common.atomic_files import write_all

Parts = tuple[str, ...]

BLOCK = 4096
"""The number of bytes that are counted for a directory, since it occupies them on a disk: many empty ones would fill
it."""

_CHUNK = 1 << 20
_DEEPEST = 200
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MODES = 0o755
"""The bits that are kept of the modes in an archive. The owner of the directory decides which other users may write."""


class UnsafeEntry(OSError):
    """An error: a name, or the target of a link of that name, leads out of the directory."""


class ImpossibleEntry(ValueError):
    """An error: the names contradict each other, or no file can have this name."""


class ConfinedDirectory:
    """The existing directory `target`, which is filled. `count` is called with the number of bytes before they are
    written, and may raise an error.

    Names and times that no file can have are ValueErrors or OverflowErrors. A new entry replaces an existing one of the
    same name, except for a directory. All methods raise UnsafeEntry, and OSError with the whole path.
    """

    def __init__(self, target: str, count: Callable[[int], None]) -> None:
        self._target = target
        self._count = count
        self._top = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._last: tuple[Parts, int] = ((), os.dup(self._top))
        self._later: dict[Parts, tuple[int, float]] = {}

    def close(self) -> None:
        os.close(self._top)
        os.close(self._last[1])

    def make_directory(self, name: str, mode: int = 0o755, mtime: float | None = None) -> None:
        """Create the directory `name` below the target, and all its parents. `mode` and `mtime` are set later by
        `finish`."""
        parts = self._parts(name)
        with self._open(parts, name):
            if mtime is not None:
                self._later[parts] = (mode & _MODES | 0o700, mtime)

    def make_link(self, name: str, text: str) -> None:
        """Create the symbolic link `name` with the target `text`, which must lead to a place inside this directory,
        independent of entries before or after it. `text` may contain `..` only at its beginning, and not lead above the
        top."""
        *above, last = self._file_parts(name)
        if not text:
            raise ImpossibleEntry(f"{name:.80} is a dangling link")
        words = text.split("/")
        up = next((number for number, word in enumerate(words) if word not in ("..", ".", "")), len(words))
        if os.path.isabs(text) or ".." in words[up:] or words[:up].count("..") > len(above):
            raise UnsafeEntry(errno.EPERM, "a link in it leads outside it, or could", name)
        with self._open(above, name) as directory:
            _clear_name(last, directory)
            os.symlink(text, last, dir_fd=directory)

    def make_hard_link(self, name: str, of: str) -> None:
        """Create `name` as a hard link to the existing file `of`. If `of` is a symbolic link, create a symbolic link
        with the same text, which is checked again: from another place it may lead elsewhere."""
        *above, source = self._file_parts(of)
        try:
            with self._open(above, of, make=False) as directory:
                mode = os.stat(source, dir_fd=directory, follow_symlinks=False).st_mode
                if stat.S_ISLNK(mode):
                    self.make_link(name, os.readlink(source, dir_fd=directory))
                elif not stat.S_ISREG(mode):
                    raise ImpossibleEntry(f"{name} is a link to something other than a file")
                elif self._parts(name) != self._parts(of):
                    self._link(directory, source, name)
        except FileNotFoundError:
            raise ImpossibleEntry(f"{name} is a link to a name that is not in it") from None

    def _link(self, directory: int, source: str, name: str) -> None:
        *above, last = self._file_parts(name)
        with self._open(above, name) as there:
            _clear_name(last, there)
            os.link(source, last, src_dir_fd=directory, dst_dir_fd=there, follow_symlinks=False)

    def write_file(self, name: str, content: IO[bytes], mode: int | None = None, mtime: float | None = None) -> None:
        """Write the bytes of `content` to the file `name`, with `mode` and `mtime` unless they are None. A file or link
        of the same name is replaced; the other names of that file, or the target of that link, are unchanged."""
        *above, last = self._file_parts(name)
        with self._open(above, name) as directory:
            _clear_name(last, directory)
            file = os.open(last, _CREATE, 0o644, dir_fd=directory)
            try:
                while data := content.read(_CHUNK):
                    self._count(len(data))
                    write_all(file, data)
                if mode is not None:
                    os.fchmod(file, mode & _MODES | 0o200)
                if mtime is not None:
                    os.utime(file, (mtime, mtime))
            finally:
                os.close(file)

    def finish(self) -> None:
        """Set the modes of the created directories, and the times of those that were created with a time. This is done
        last, since writing changes the time."""
        for parts, (mode, mtime) in sorted(self._later.items(), reverse=True):
            with self._open(parts, "/".join(parts), make=False) as directory:
                os.fchmod(directory, mode)
                os.utime(directory, (mtime, mtime))

    def _parts(self, name: str) -> Parts:
        """Return the components of the path `name` below the target; an empty tuple for the target itself. Raise
        UnsafeEntry if the name leads out of the directory, ImpossibleEntry if it is too long."""
        path = os.path.normpath(name or ".")
        if os.path.isabs(name) or path.split("/")[0] == "..":
            raise UnsafeEntry(errno.EPERM, "a name in it leads outside it", name)
        parts = () if path == "." else tuple(path.split("/"))
        if len(parts) > _DEEPEST or len(os.fsencode(self._target + "/" + path)) >= 4096:
            raise ImpossibleEntry(f"{name:.80}… is nested too deep")
        return parts

    def _file_parts(self, name: str) -> Parts:
        parts = self._parts(name)
        if not parts:
            raise ImpossibleEntry(f"{name!r:.80} is not a file name")
        return parts

    @contextmanager
    def _open(self, parts: Iterable[str], name: str, make: bool = True) -> Iterator[int]:
        """Open the directory at `parts` below the target, in which, or as which, `name` is created, and yield its
        descriptor for a `with`; with `make`, missing directories are created. Errors contain the whole path of `name`.

        The last directory is kept open, since the next entry is mostly in the same one. No directory that was created
        is ever removed, so that the descriptor always belongs to that name.
        """
        wanted = tuple(parts)
        known, kept = self._last
        found = os.dup(kept if wanted == known else self._top)
        try:
            if wanted != known:
                for part in wanted:
                    above, found = found, self._open_one(found, part, name, make)
                    os.close(above)
                self._last = (wanted, os.dup(found))
                os.close(kept)
            yield found
        except OSError as error:
            raise self._with_path(error, name) from None
        finally:
            os.close(found)

    def _open_one(self, above: int, part: str, name: str, make: bool) -> int:
        try:
            return os.open(part, _OPEN, dir_fd=above)
        except FileNotFoundError:
            if not make:
                raise
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP) and _is_link(part, above):
                raise UnsafeEntry(errno.EPERM, "a name in it is below a link", name) from None
            raise
        self._count(BLOCK)
        os.mkdir(part, 0o755, dir_fd=above)
        return os.open(part, _OPEN, dir_fd=above)

    def _with_path(self, error: OSError, name: str) -> Exception:
        """Return `error`, raised when the entry `name` was created, with the whole path of the entry. Return
        ImpossibleEntry if the names are the cause, and not the disk."""
        if isinstance(error, UnsafeEntry) or not error.errno or str(error.filename).startswith(self._target):
            return error
        if error.errno in (errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG):
            return ImpossibleEntry(f"{name:.80} is a directory and something else, or not a file name")
        return OSError(error.errno, error.strerror, os.path.join(self._target, name))


def _clear_name(name: str, directory: int) -> None:
    """Remove the file or link `name` in the open directory `directory`, if it exists, so that nothing is written
    through it."""
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        pass


def _is_link(name: str, directory: int) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
