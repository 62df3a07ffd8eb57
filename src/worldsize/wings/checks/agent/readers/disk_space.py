"""Readers for the free space of a directory's file system, and a test whether a small file can be written there.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import errno
import os

from worldsize.common.atomic_files import try_unlink, write_all
from worldsize.common.named_tuple import NamedTuple

_TRIAL_SIZE = 65536
"""The number of bytes in the trial file: more than a file system stores in the inode itself."""

_UNLIMITED = 1 << 60
"""The value from which on a count is not valid. Network file systems without a limit report such numbers."""


_NO_FSYNC = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""The errors of fsync on file systems that do not support it, such as mounted object stores. Writing never fails with
them."""


class Space(NamedTuple):
    """The bytes and inodes of a file system, as available to an ordinary user. A total of 0 means that the file system
    does not report it."""

    total: int
    free: int
    inodes: int = 0
    free_inodes: int = 0


def space_of(directory: str) -> Space:
    """Return the Space (total and free bytes and inodes) of the file system that the directory is on; zeros if it
    cannot be read."""
    try:
        found = os.statvfs(directory)
    except OSError:  # the size is unknown: writing shows whether it can be written
        return Space(0, 0)
    block = found.f_frsize or found.f_bsize
    size = _counts(found.f_blocks * block, found.f_bavail * block)
    return Space(*size, *_counts(found.f_files, found.f_favail))


def write_trial(directory: str) -> OSError | None:
    """Write a small file in the directory and remove it. Return the error if that fails; None otherwise.

    The file is flushed by fsync, because a file server may report missing space or quota only when it receives the
    data.
    """
    path = os.path.join(directory, f".worldsize-check-{os.getpid()}-{os.urandom(6).hex()}")
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        return error
    try:
        return _write_and_close(file)
    finally:
        try_unlink(path)


def _write_and_close(file: int) -> OSError | None:
    failed = None
    try:
        write_all(file, b"\0" * _TRIAL_SIZE)
        os.fsync(file)
    except OSError as error:
        failed = None if error.errno in _NO_FSYNC else error
    try:
        os.close(file)
    except OSError as error:
        failed = failed or error
    return failed


def _counts(total: int, free: int) -> tuple[int, int]:
    """Return `total` and `free` of a file system's bytes or inodes, or two zeros if one of them is not a valid count.
    CephFS, for example, reports a total of inodes, and -1 for the free ones."""
    return (total, free) if 0 <= total < _UNLIMITED and 0 <= free < _UNLIMITED else (0, 0)
