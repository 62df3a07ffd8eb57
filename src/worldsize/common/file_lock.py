"""A lock for one builder at a time: a file that is locked while its builder, or any process that it started, lives."""

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

    A child that inherits the descriptor keeps the lock when its parent is killed, so the next process that requests the
    lock waits until all writers have ended. The file contains which process holds the lock, and the progress of its
    work: `note`.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self._began = time.time()

    def note(self, step: str, **more: Any) -> None:
        """Write who holds the lock (pid, host, since), and the `step` of the work, into the lock's file as JSON, for
        the processes that wait for the lock."""
        who = {"pid": os.getpid(), "host": os.uname().nodename, "since": self._began, "step": step, **more}
        text = json.dumps(who).encode()
        os.pwrite(self.descriptor, text, 0)
        os.ftruncate(self.descriptor, len(text))

    def release(self) -> None:
        os.ftruncate(self.descriptor, 0)
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        os.close(self.descriptor)


def acquire(path: str, waiting: Callable[[dict[str, Any]], None] | None = None) -> FileLock | None:
    """Acquire the file lock at `path`, whose directory is created, and return it. While another process holds it, call
    `waiting` about ten times a second with the holder's note ({} if there is none). Without `waiting`, return None if
    another process holds the lock for longer than a check (`is_held`) takes. Raise StorageError if the file system has
    no locks."""
    tries = 0
    while True:
        descriptor = _open_lock_file(path)
        try:
            if _try_lock(descriptor, path):
                if _is_same_file(path, descriptor):
                    return FileLock(path, descriptor)
                os.close(descriptor)  # it was removed in the meantime
                continue
        except BaseException:  # no other code closes the file after an exception
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
    """Return the last note that the holder of the file lock at `path` has written (pid, host, since, step); {} if the
    lock is not held, or the holder has written none."""
    return read_object(path)


def is_held(path: str) -> bool:
    """Return whether a process holds the lock at `path`. The file is not created."""
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
    """Lock the open file `descriptor` if it is free, without waiting. Return whether it is locked by this call. flock
    is used rather than POSIX locks, because those end with any descriptor of the file, and children do not share them.
    Linux's NFS does the same for both. Raise StorageError if the file system has no locks."""
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
