"""Functions for files that a reader sees either completely or not at all, for reads that never block, and the messages
for failed writes.

Every failure is an OSError, left to the caller; `storage_error` turns it into a message for users.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import errno
import json
import os
import stat

from worldsize.common.named_tuple import Any
from worldsize.errors import StorageError

_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MAX_RECORD_BYTES = 256 << 20
"""The maximum number of bytes of a record."""

IRREGULAR_FILE = "it is not a regular file"
_NO_LINKS = frozenset((errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV))

_HINTS = {
    errno.ENOSPC: "the disk is full: free some space (`worldsize prune`), or set WORLDSIZE_HOME to another disk",
    errno.EDQUOT: "your quota is used up: free some space (`worldsize prune`), or set WORLDSIZE_HOME to another disk",
    errno.EROFS: "the file system is read-only: set WORLDSIZE_HOME (or the compute's runs_dir) to a writable one",
    errno.EACCES: "you may not write there: set WORLDSIZE_HOME (or the compute's runs_dir) to a directory of yours",
    errno.EPERM: "you may not write there: set WORLDSIZE_HOME (or the compute's runs_dir) to a directory of yours",
    errno.ENOTDIR: "a file is where a directory is needed: move it, or set WORLDSIZE_HOME to another place",
    errno.EEXIST: "a file is where a directory is needed: move it, or set WORLDSIZE_HOME to another place",
    errno.ENAMETOOLONG: "the path is too long: set WORLDSIZE_HOME (or the compute's runs_dir) to a shorter one",
    errno.ELOOP: "the symbolic links there form a loop: fix them, or set WORLDSIZE_HOME to another place",
    errno.ESTALE: "the network file system was remounted or its directory removed: change to it again, and retry",
    errno.EIO: "the disk or the network file system fails: ask its administrator, or set WORLDSIZE_HOME to "
    "another place",
}


def storage_error(error: OSError, path: str) -> StorageError:
    """Return the StorageError for users about a failed write of `path`: what could not be written, the reason in words,
    and a hint."""
    why = os.strerror(error.errno) if error.errno else str(error)
    return StorageError(
        f"cannot write: {why}",
        printable_text(path),
        _HINTS.get(error.errno or 0, "check the path and its permissions"),
    )


def printable_text(path: str) -> str:
    """Return a path that any terminal can show: undecodable bytes and control characters are escaped."""
    if path.isprintable():
        return path
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in path)


def write_bytes(path: str, data: bytes, private: bool = False, reserved: str = "") -> None:
    """Replace `path` by a file that contains `data`. A reader sees the complete old file or the complete new one.

    The mode is 0600. It is 0640 in a directory that is open to the group only, unless the file is `private`. `reserved`
    is a file in the same directory whose bytes and mode are used, so that a full disk does not matter. The reserved
    file is gone afterwards.
    """
    temporary = _write_temporary(path, data, private, reserved)
    try:
        os.replace(temporary, path)
    except OSError:
        try_unlink(temporary)
        raise


def write_text(path: str, text: str, private: bool = False) -> None:
    """Replace the file `path` by one that contains the text in UTF-8, as `write_bytes` does. Undecodable bytes that are
    kept as surrogates are written unchanged."""
    write_bytes(path, text.encode("utf-8", "surrogateescape"), private)


def write_json(path: str, value: Any, private: bool = False, reserved: str = "") -> None:
    """Replace the file `path` by one that contains the value as compact JSON in ASCII, as `write_bytes` does. The mode
    of a `private` file is 0600 in any directory."""
    write_bytes(path, _json(value), private, reserved)


def file_server_time(directory: str) -> float:
    """Return the present time of the clock of the file server that `directory` is on, in Unix seconds: the modification
    time that a file written there now gets. Raise OSError if no file can be created."""
    path = os.path.join(directory, f".time-{os.getpid()}-{os.urandom(4).hex()}")
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        os.write(file, b"\n")
        os.fsync(file)
        return os.fstat(file).st_mtime
    finally:
        os.close(file)
        try_unlink(path)


def write_once(path: str, value: Any, reserved: str = "") -> bool:
    """Write the value as JSON to `path`, unless that file exists, when several processes may try. Return True for the
    one writer whose complete value is there now; False for all others.

    `reserved` is as for `write_bytes`. If the file system has no hard links, an empty `<path>.once` decides which
    process writes.
    """
    temporary = _write_temporary(path, _json(value), reserved=reserved)
    try:
        os.link(temporary, path)
    except FileExistsError:
        # NFS may repeat a request whose answer was lost: the link that "exists" can be this call's own.
        return os.stat(temporary).st_nlink == 2
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _claim(temporary, path)
    finally:
        try_unlink(temporary)
    return True


class Descriptor:
    """A context that closes a descriptor at its end."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __enter__(self) -> int:
        return self._number

    def __exit__(self, *_: object) -> None:
        os.close(self._number)


def open_log(path: str) -> int:
    """Open the file `path` to append to it, and create it if it does not exist. Return the descriptor. The mode of a
    new file is determined by this process's umask. Raise OSError."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)


def open_unnamed_file(name: str) -> int:
    """Open an empty file that has no name in any directory, for writing and reading, and return its descriptor. `name`
    is the name that the kernel shows for the file. A Python that was built for an older C library, as conda's, creates
    the file on a disk. Raise OSError."""
    try:
        return os.memfd_create(name)
    except (AttributeError, OSError):
        import tempfile

        with tempfile.TemporaryFile() as made:
            return os.dup(made.fileno())


def link_or_copy(source: str, target: str) -> None:
    """Create `target` as a second name (hard link) of the file `source`, or as a copy if no link can be created. Raise
    OSError if the copy fails."""
    try:
        os.link(source, target)
    except OSError:
        import shutil

        shutil.copyfile(source, target)


def open_regular_file(path: str) -> int:
    """Open the file `path` for reading, and return its descriptor. Raise OSError if it cannot be opened, or if it is no
    regular file, which another user may have put there: a read would wait for a pipe, and a device may have no end."""
    descriptor = os.open(path, _READING)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise OSError(errno.EINVAL, IRREGULAR_FILE, path)


def access_of(path: str) -> tuple[int, int] | None:
    """Return the owner of a file, directory or link itself, and the bits of its mode that let other users write; None
    if it does not exist.

    If a run's directory was removed from a shared directory, other users can create a new one with its name, which has
    another owner, or move one there that they can write to. A change of either value shows this, on any file server.
    """
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_uid, status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def has_same_owner(path: str, other: str) -> bool:
    """Return whether one user owns the files or directories `path` and `other`; False if one of them does not exist.
    Return True for two file systems, because one of them may show a user's files as those of another user, so that the
    owners cannot be compared."""
    try:
        here, there = os.lstat(path), os.lstat(other)
    except OSError:
        return False
    return here.st_dev != there.st_dev or here.st_uid == there.st_uid


def read_file(path: str, most: int = -1) -> bytes:
    """Return the bytes of a regular file, at most the first `most`. Raise OSError if it cannot be read. Raise OSError
    also if all bytes are requested and the file is larger than any record, because a hole of a terabyte takes no space
    on a disk."""
    with open(open_regular_file(path), "rb") as file:
        if most < 0 and os.fstat(file.fileno()).st_size > MAX_RECORD_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return file.read(most)


def read_if_possible(path: str, most: int = -1) -> bytes:
    """Return the bytes of a regular file as `read_file` does; no bytes if the file cannot be read."""
    try:
        return read_file(path, most)
    except OSError:
        return b""


def read_tail(path: str, most: int) -> bytes:
    """Return the last `most` bytes of a regular file; none if it cannot be read."""
    try:
        with open(open_regular_file(path), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - most))
            return file.read()
    except OSError:
        return b""


def read_json(path: str) -> Any:
    """Return the JSON value in the file `path`; None if there is no such file. Raise ValueError if it is not JSON in
    UTF-8, OSError if it cannot be read."""
    try:
        return json.loads(read_file(path))
    except FileNotFoundError:
        return None
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def read_object(path: str) -> dict[str, Any]:
    """Return the JSON object in the file `path` as a dictionary; an empty one if there is no such file, if it cannot be
    read, or if it contains something else."""
    try:
        value = read_json(path)
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data` to the file descriptor, although one call of write(2) may write only a part. Raise
    OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def try_unlink(path: str, directory: int | None = None) -> None:
    """Remove the file `path`, and ignore it if that is not possible. `directory` is a descriptor of the directory that
    `path` is relative to."""
    try:
        os.unlink(path, dir_fd=directory)
    except OSError:
        pass


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def _write_temporary(path: str, data: bytes, private: bool = False, reserved: str = "") -> str:
    if reserved and _overwrite_reserved(reserved, data):
        return reserved
    temporary = f"{path}.{os.urandom(6).hex()}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with open(descriptor, "wb", buffering=0):  # some network file systems report a failed write only at close
            if not private and os.stat(os.path.dirname(path) or ".").st_mode & 0o077 == 0o050:
                os.fchmod(descriptor, 0o640)
            write_all(descriptor, data)
    except OSError:
        try_unlink(temporary)
        raise
    return temporary


def _overwrite_reserved(reserved: str, data: bytes) -> bool:
    """Write `data` over the bytes of the file `reserved`, which was created earlier so that its space is available on a
    full disk. Return whether the file had enough bytes. If it had not, it is removed."""
    try:
        descriptor = os.open(reserved, os.O_WRONLY)
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_size >= len(data) and os.write(descriptor, data) == len(data):
            os.ftruncate(descriptor, len(data))
            return True
    finally:
        os.close(descriptor)
    try_unlink(reserved)
    return False


def _claim(temporary: str, path: str) -> bool:
    if os.path.lexists(path):
        return False
    try:
        os.close(os.open(path + ".once", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        return False
    os.replace(temporary, path)
    return True
