"""Copies of files and folders on a node's disk. A copy is made completely or not at all, and once for all agents of a
machine that want it."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from worldsize.common.atomic_files import write_all

TYPE_CHECKING = False
if TYPE_CHECKING:
    Files = Iterator[tuple["_Folder", str, str]]

_CHUNK = 8 << 20
_WORKERS = 8
"""The number of threads that copy files: a shared file system answers many requests at once, but single requests
slowly."""

_AT_ONCE = 128
"""The most files that are being copied or wait for it. Each of them may keep its directory open."""

_READING = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_WRITING = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

_PAUSE = 0.05


class PreparationStopped(Exception):
    """The exception that is raised when the preparation of files on the node's disk is no longer wanted."""


def copy_once(source: str, target: str, stopped: Callable[[], bool]) -> None:
    """Copy the file or folder `source` to `target` on the node's disk, unless the target exists. The target appears
    only when the copy is complete, and other agents on the machine wait for it. Links in a folder stay links. Raise
    OSError if the copy fails, and PreparationStopped if `stopped` returns True."""
    os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
    with exclusive_lock(target + ".lock", stopped):
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
def exclusive_lock(path: str, stopped: Callable[[], bool]) -> Iterator[None]:
    """Hold the exclusive lock in the file at `path`: no other process on this machine holds it meanwhile. Raise OSError
    if the file cannot be locked, and PreparationStopped if `stopped` returns True while waiting."""
    with open(path, "wb") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EAGAIN, errno.EACCES):
                    raise
                if stopped():
                    raise PreparationStopped from None
                time.sleep(_PAUSE)
        yield


def _remove(path: str) -> None:
    if os.path.isdir(path):
        from shutil import rmtree

        rmtree(path, ignore_errors=True)
    elif os.path.lexists(path):
        os.unlink(path)


class _Folder:
    """A directory that is being copied, held open by its descriptor, so that replacing its name by a link has no
    effect. The descriptor is closed with the last reference to the object."""

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path

    def __del__(self) -> None:
        os.close(self.fd)

    def open(self, name: str, flags: int = 0) -> int:
        return os.open(name, _READING | os.O_NOFOLLOW | flags, dir_fd=self.fd)


def _copy(source: str, target: str, stopped: Callable[[], bool]) -> None:
    place = os.open(source, _READING)
    if stat.S_ISDIR(os.fstat(place).st_mode):
        _copy_folder(_Folder(place, source), target, stopped)
    else:
        _copy_file(place, target, stopped)


def _copy_folder(top: _Folder, target: str, stopped: Callable[[], bool]) -> None:
    """Copy the open folder `top` and everything below it to `target`, with several threads. Entries other than files,
    directories and links are left out."""
    from concurrent.futures import ThreadPoolExecutor

    from worldsize.wings.provisioning.agent.map_ahead import map_ahead

    with ThreadPoolExecutor(_WORKERS) as pool:
        for _ in map_ahead(pool, lambda file: _copy_entry(*file, stopped), _files(top, target), _AT_ONCE):
            pass


def _files(top: _Folder, target: str) -> Files:
    """Yield the files in and below the directory `top`, each as its directory, its name there, and the path of its copy
    below `target`.

    Directories and links are copied on the way. Each of them must be new, so nothing is written through a link.
    """
    os.mkdir(target, 0o700)
    left: list[tuple[_Folder, str, str]] = [(top, "", target)]
    while left:
        above, name, copy = left.pop()
        with _explain_changes(above, name):
            folder = _Folder(above.open(name, os.O_DIRECTORY), os.path.join(above.path, name)) if name else above
        with os.scandir(folder.fd) as entries:
            for entry in entries:
                path = os.path.join(copy, entry.name)
                with _explain_changes(folder, entry.name):
                    if entry.is_symlink():
                        os.symlink(os.readlink(entry.name, dir_fd=folder.fd), path)
                    elif entry.is_dir(follow_symlinks=False):
                        os.mkdir(path, 0o700)
                        left.append((folder, entry.name, path))
                        continue
                if not entry.is_symlink() and entry.is_file(follow_symlinks=False):
                    yield folder, entry.name, path


def _copy_entry(folder: _Folder, name: str, target: str, stopped: Callable[[], bool]) -> None:
    with _explain_changes(folder, name):
        _copy_file(folder.open(name), target, stopped)


@contextmanager
def _explain_changes(folder: _Folder, name: str) -> Iterator[None]:
    """Convert an OSError within the context, raised while the entry `name` of a folder is copied, into one with the
    whole path. If a name was listed twice, or was replaced since it was listed, the error states that it changed while
    it was copied."""
    try:
        yield
    except OSError as error:
        changed = error.errno in (errno.EEXIST, errno.ELOOP, errno.ENOTDIR)
        what = "it was changed while it was copied" if changed else error.strerror
        raise OSError(errno.ESTALE if changed else error.errno, what, os.path.join(folder.path, name)) from None


def _copy_file(source: int, target: str, stopped: Callable[[], bool]) -> None:
    """Copy the open file `source` with its permissions and times to the new file `target`, and close it. The owner may
    always write to the copy. Raise FileExistsError if the target exists, and OSError if the source is no regular file.
    """
    try:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        copy = os.open(target, _WRITING, 0o600)
        try:
            _copy_bytes(source, copy, stopped)
            os.fchmod(copy, status.st_mode & 0o777 | 0o200)
            os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(copy)
    finally:
        os.close(source)


def _copy_bytes(source: int, target: int, stopped: Callable[[], bool]) -> None:
    while True:
        if stopped():
            raise PreparationStopped
        try:
            moved = os.sendfile(target, source, None, _CHUNK)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
                raise
            data = os.read(source, _CHUNK)
            write_all(target, data)
            moved = len(data)
        if not moved:
            return
