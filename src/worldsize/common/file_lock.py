"""One builder at a time: a file that is locked for as long as its builder, or anything that it started, lives."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable
from typing import Any

from worldsize.common.atomic_files import read_object, storage_error
from worldsize.errors import StorageError
from worldsize.trust.directories import make_directories

_PAUSE = 0.1
_TRIES = 3
_UNABLE = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL))


class FileLock:
    """Held until `release`, or until this process and all that inherited `descriptor` have ended.

    A child that is given the descriptor keeps the lock when its parent is killed: whoever comes next waits until
    nobody writes any more. The file says who holds it, and how far it is: `note`.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self._began = time.time()

    def note(self, step: str, **more: Any) -> None:
        """What those who wait are told."""
        who = {"pid": os.getpid(), "host": os.uname().nodename, "since": self._began, "step": step, **more}
        text = json.dumps(who).encode()
        os.pwrite(self.descriptor, text, 0)
        os.ftruncate(self.descriptor, len(text))

    def release(self) -> None:
        os.ftruncate(self.descriptor, 0)
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)


def acquire(path: str, waiting: Callable[[dict[str, Any]], None] | None = None) -> FileLock | None:
    """The lock at `path`, whose directory is made. Meanwhile `waiting` is called about ten times a second with what the
    holder noted ({} for nothing); without it, None where somebody else holds the lock for longer than one who looks
    (`is_held`). StorageError where the file system has no locks."""
    tries = 0
    while True:
        descriptor = _open_lock_file(path)
        try:
            if _try_lock(descriptor, path):
                if _is_same_file(path, descriptor):
                    return FileLock(path, descriptor)
                os.close(descriptor)  # it was removed while we waited
                continue
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        tries += 1
        if waiting is not None:
            waiting(read_note(path))
        elif tries == _TRIES:
            return None
        time.sleep(_PAUSE)


def read_note(path: str) -> dict[str, Any]:
    """What the holder of the lock said last; {} where nobody holds it, or said anything."""
    return read_object(path)


def is_held(path: str) -> bool:
    """Whether somebody holds the lock at `path`, which is not made."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return not _try_lock(descriptor, path)
    finally:
        os.close(descriptor)


def _open_lock_file(path: str) -> int:
    try:
        make_directories(os.path.dirname(path))
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise storage_error(error, path) from None


def _try_lock(descriptor: int, path: str) -> bool:
    """flock rather than POSIX's locks: those end with any descriptor of the file, and children do not share them.
    Linux's NFS does the same for both."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _UNABLE:
            hint = "name another directory: envs_dir in worldsize.toml (Lustre has locks when mounted with -o flock)"
            raise StorageError("its file system has no locks", path, hint) from None
        raise storage_error(error, path) from None
    return True


def _is_same_file(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False
