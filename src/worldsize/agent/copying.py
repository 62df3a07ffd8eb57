"""Files and folders copied to a node's disk: whole or not at all, once where several agents of a machine want it."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple

    Pairs = Iterator[Tuple[str, str]]

_CHUNK = 8 << 20
_WORKERS = 8
"""A shared file system answers many requests at once, and one at a time slowly."""


_PAUSE = 0.05


class Stopped(Exception):
    """Nobody wants it any more."""


def copy_once(source: str, target: str, stopped: Callable[[], bool]) -> None:
    """`target` is a copy of the file or folder `source`, links in it kept as links. Raises OSError, Stopped."""
    os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
    with alone(target + ".lock", stopped):
        if os.path.lexists(target):
            return
        part = target + ".part"
        _remove(part)
        try:
            _copy(source, part, stopped)
            os.rename(part, target)
        except BaseException:
            _remove(part)
            raise


@contextmanager
def alone(path: str, stopped: Callable[[], bool]) -> Iterator[None]:
    """Nobody else on this machine is inside meanwhile. Raises OSError, Stopped."""
    with open(path, "wb") as lock:
        while not _try_lock(lock.fileno()):
            if stopped():
                raise Stopped
            time.sleep(_PAUSE)
        yield


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True


def _remove(path: str) -> None:
    if os.path.isdir(path):
        from shutil import rmtree

        rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


def _copy(source: str, target: str, stopped: Callable[[], bool]) -> None:
    if not os.path.isdir(source):
        _copy_file(source, target, stopped)
        return
    from concurrent.futures import ThreadPoolExecutor

    os.mkdir(target, 0o700)
    with ThreadPoolExecutor(_WORKERS) as pool:
        jobs = [pool.submit(_copy_file, file, copy, stopped) for file, copy in _files(source, target)]
        try:
            for job in jobs:
                job.result()
        except BaseException:
            for job in jobs:
                job.cancel()
            raise


def _files(source: str, target: str) -> Pairs:
    """The plain files below `source`, each with its copy's path; directories and links are made on the way."""
    with os.scandir(source) as entries:
        for entry in entries:
            copy = os.path.join(target, entry.name)
            if entry.is_symlink():
                os.symlink(os.readlink(entry.path), copy)
            elif entry.is_dir():
                os.mkdir(copy, 0o700)
                yield from _files(entry.path, copy)
            elif entry.is_file():
                yield entry.path, copy


def _copy_file(source: str, target: str, stopped: Callable[[], bool]) -> None:
    with open(source, "rb") as file:
        status = os.fstat(file.fileno())
        with open(target, "wb") as copy:
            _pour(file.fileno(), copy.fileno(), stopped)
            os.fchmod(copy.fileno(), status.st_mode & 0o777 | 0o200)
        os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _pour(source: int, target: int, stopped: Callable[[], bool]) -> None:
    while True:
        if stopped():
            raise Stopped
        try:
            moved = os.sendfile(target, source, None, _CHUNK)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            data = os.read(source, _CHUNK)
            moved = len(data)
            view = memoryview(data)
            while view:
                view = view[os.write(target, view) :]
        if not moved:
            return
