"""Store for file contents: each is stored once, under its digest, and hard-linked from there into runs.

The files are `<directory>/ab/<digest>-<mode>`, read-only, all with the same modification time. An object whose time,
size or mode differs was written through a run's link. It is never trusted, and is replaced when its content is stored
again. Objects may vanish at any time, since `worldsize prune` removes those that no run links to. Code that links them
must handle that.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from worldsize.common.atomic_files import write_all
from worldsize.common.digests import blake2b, digest_of
from worldsize.errors import SnapshotError
from worldsize.snapshot.code_files import snapshot_read_error
from worldsize.trust.directories import make_private_directory
from worldsize.trust.owners import is_ours

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Written = TypeVar("Written")

FIXED_TIME_NS = 1_577_836_800 * 10**9
"""The modification time of all objects, 2020-01-01. It is an even number of seconds, which every file system can
store."""

_MAX_IN_MEMORY = 1 << 20
_CHUNK = 1 << 20
_CANNOT_LINK = frozenset((errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EOPNOTSUPP))


class ObjectStore:
    """The store of file contents in one private directory of this user, which is made if missing. Raise StorageError if
    it is not private."""

    def __init__(self, directory: str) -> None:
        self.directory = make_private_directory(directory)

    def link(self, digest: str, executable: bool, size: int, target: str) -> bool:
        """Create the file `target` as a hard link to the stored object with the given digest, mode and size, and return
        True; return False if the object is missing or was modified."""
        mode = _mode(executable)
        path = self._path(digest, mode)
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return False
        if (status.st_mtime_ns, status.st_size, status.st_mode) != (FIXED_TIME_NS, size, stat.S_IFREG | mode):
            return False
        if not is_ours(status):
            return False
        return _link(path, target, mode)

    def add(self, source: int, name: str, executable: bool, target: str) -> tuple[str, int, os.stat_result]:
        """Store the present content of the descriptor `source`, a file called `name`, as an object, and create the file
        `target` with that content.

        Return the digest of the content, its size and the stat of `source` after it was read.
        """
        size = os.fstat(source).st_size
        pieces, mode = read_pieces(source, size, name), _mode(executable)
        temporary = f"{self.directory}/tmp-{os.urandom(8).hex()}"
        if size <= _MAX_IN_MEMORY:
            data = b"".join(pieces)
            digest, size = digest_of(data), len(data)
            if self.link(digest, executable, size, target):
                return digest, size, os.fstat(source)
            _write_object(temporary, mode, lambda descriptor: write_all(descriptor, data))
        else:
            digest, size = _write_object(temporary, mode, partial(write_pieces, pieces))
            if self.link(digest, executable, size, target):
                os.unlink(temporary)
                return digest, size, os.fstat(source)
        self._store(temporary, self._path(digest, mode), target, mode)
        return digest, size, os.fstat(source)

    def _path(self, digest: str, mode: int) -> str:
        return f"{self.directory}/{digest[:2]}/{digest}-{mode:o}"

    def _store(self, temporary: str, path: str, target: str, mode: int) -> None:
        """Move the file `temporary` to `path` as an object of the store. It is linked to `target` in the run first, so
        that `worldsize prune` never finds it unused."""
        if not _link(temporary, target, mode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), target)
        try:
            os.replace(temporary, path)
        except FileNotFoundError:
            try:
                os.mkdir(os.path.dirname(path), 0o700)
            except FileExistsError:
                pass
            os.replace(temporary, path)


def read_pieces(source: int, size: int, path: str) -> Iterator[bytes]:
    """Yield the content of the open file `source` in pieces of bytes, at most `size` bytes in total. A file that grows
    meanwhile is read only up to this size. Raise SnapshotError, which names `path`, if the file cannot be read."""
    while size > 0:
        try:
            piece = os.read(source, min(_CHUNK, size))
        except OSError as error:
            raise snapshot_read_error(error, path) from None
        if not piece:
            return
        size -= len(piece)
        yield piece


def write_pieces(pieces: Iterable[bytes], target: int) -> tuple[str, int]:
    """Write `pieces`, an iterable of bytes, to the descriptor `target`. Return the digest and the number of the written
    bytes."""
    hasher = blake2b(digest_size=20)
    size = 0
    for piece in pieces:
        hasher.update(piece)
        write_all(target, piece)
        size += len(piece)
    return hasher.hexdigest(), size


def _write_object(path: str, mode: int, write: Callable[[int], Written]) -> Written:
    """Make a new file `path` with the fixed time of objects; `write` is called with its descriptor and writes the
    content. Return the result of `write`. If the content cannot be written completely, the file is removed."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        written = write(descriptor)
        os.utime(descriptor, ns=(FIXED_TIME_NS, FIXED_TIME_NS))
    except (OSError, SnapshotError):
        os.unlink(path)
        raise
    finally:
        os.close(descriptor)
    return written


def _mode(executable: bool) -> int:
    return 0o500 if executable else 0o400


def _link(path: str, target: str, mode: int) -> bool:
    try:
        os.link(path, target)
    except FileNotFoundError:
        return False
    except OSError as error:
        if error.errno not in _CANNOT_LINK:
            raise
        return _copy_object(path, target, mode)
    return True


def _copy_object(path: str, target: str, mode: int) -> bool:
    try:
        source = open(path, "rb")
    except FileNotFoundError:
        return False
    with source:
        _write_object(target, mode, partial(write_pieces, iter(lambda: source.read(_CHUNK), b"")))
    return True
