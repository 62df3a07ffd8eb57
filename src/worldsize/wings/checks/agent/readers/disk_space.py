"""How much room a directory's file system has, and whether a small file can be written there.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import errno
import os

from worldsize.common.atomic_files import try_unlink, write_all
from worldsize.common.named_tuple import NamedTuple

_TRIAL_SIZE = 65536
"""Bytes of the file that is written on trial: more than a file system keeps in the inode itself."""

_UNLIMITED = 1 << 60
"""Counts from here on are no counts: network file systems without a limit report such numbers."""


_NO_FSYNC = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
"""What fsync fails with on file systems without it, such as object stores that are mounted; writing never does."""


class Space(NamedTuple):
    """Bytes and inodes of a file system, for an ordinary user. A total of 0: it does not tell."""

    total: int
    free: int
    inodes: int = 0
    free_inodes: int = 0


def space_of(directory: str) -> Space:
    """Return the room of the file system that the directory is on."""
    try:
        found = os.statvfs(directory)
    except OSError:  # it tells nothing: whether it can be written is found out by writing
        return Space(0, 0)
    block = found.f_frsize or found.f_bsize
    size = _counts(found.f_blocks * block, found.f_bavail * block)
    return Space(*size, *_counts(found.f_files, found.f_favail))


def write_trial(directory: str) -> OSError | None:
    """Write a small file in the directory and remove it; return the error of what failed, or None.

    A file server may refuse for want of space or quota only when the data reach it: hence the fsync.
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
    """Both numbers, or two zeros where one is no count: of inodes, CephFS tells a total, and -1 for the free ones."""
    return (total, free) if 0 <= total < _UNLIMITED and 0 <= free < _UNLIMITED else (0, 0)
