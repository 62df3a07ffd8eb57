"""One builder at a time: a file that is locked for as long as its builder, or anything that it started, lives."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable

from worldsize.common.atomic_files import read_object, storage_error
from worldsize.common.named_tuple import Any
from worldsize.errors import StorageError
from worldsize.trust.directories import make_directories

_PAUSE = 0.1
_TRIES = 3
_UNABLE = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL))


class FileLock:
    """A lock that is held until `release`, or until this process and all that inherited `descriptor` have ended.

    A child that is given the descriptor keeps the lock when its parent is killed: the next process that takes the lock
    waits until nobody writes any more. The file says who holds it, and how far the work is: `note`.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self._began = time.time()

    def note(self, step: str, **more: Any) -> None:
        """Write into the file what those who wait are told."""
        who = {"pid": os.getpid(), "host": os.uname().nodename, "since": self._began, "step": step, **more}
        text = json.dumps(who).encode()
        os.pwrite(self.descriptor, text, 0)
        os.ftruncate(self.descriptor, len(text))

    def release(self) -> None:
        os.ftruncate(self.descriptor, 0)
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)


def acquire(path: str, waiting: Callable[[dict[str, Any]], None] | None = None) -> FileLock | None:
    """Acquire the lock at `path`, whose directory is made. While somebody else holds it, `waiting` is called about ten
    times a second with what the holder noted ({} for nothing). Without `waiting`, return None where somebody else holds
    it for longer than a look at it (`is_held`) takes. StorageError where the file system has no locks."""
    tries = 0
    while True:
        descriptor = _open_lock_file(path)
        try:
            if _try_lock(descriptor, path):
                if _is_same_file(path, descriptor):
                    return FileLock(path, descriptor)
                os.close(descriptor)  # it was removed in the meantime
                continue
        except BaseException:  # no matter what ends this, nobody else closes the file
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
    """What the holder of the lock noted last; {} where nobody holds it, or the holder has noted nothing."""
    return read_object(path)


def is_held(path: str) -> bool:
    """Return whether somebody holds the lock at `path`. The file is not made."""
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
