"""How much room a directory's file system has, and whether a small file can be written there.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

from worldsize.common.atomic_files import try_unlink, write_all
from worldsize.common.named_tuple import NamedTuple

_TRIAL_SIZE = 65536
"""Bytes of the file that is written on trial: more than a file system keeps in the inode itself."""

_UNLIMITED = 1 << 60
"""Counts from here on are no counts: network file systems without a limit report such numbers."""


class Space(NamedTuple):
    """Of a file system, for an ordinary user: bytes and inodes. A total of 0: it does not tell."""

    total: int
    free: int
    inodes: int = 0
    free_inodes: int = 0


def space_of(directory: str) -> Space:
    """The room of the file system that the directory is on. Raises OSError."""
    found = os.statvfs(directory)
    block = found.f_frsize or found.f_bsize
    return Space(
        _count(found.f_blocks * block), _count(found.f_bavail * block), _count(found.f_files), _count(found.f_favail)
    )


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
        failed = error
    try:
        os.close(file)
    except OSError as error:
        failed = failed or error
    return failed


def error_words(error: OSError) -> str:
    """What the system calls the error: "No space left on device"."""
    return os.strerror(error.errno) if error.errno else (str(error) or type(error).__name__)


def size_text(count: float) -> str:
    """The bytes in words such as `64 MiB`, `1.5 GiB`; three digits."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}" if count >= 1000 else f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.4g} TiB"


def _count(number: int) -> int:
    return number if 0 <= number < _UNLIMITED else 0
