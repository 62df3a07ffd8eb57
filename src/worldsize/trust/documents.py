"""Writing of files for a person to keep, in places where others may also be able to write: a lock file, a job, a
configuration.

Another user's link on the way could lead to any file of this user. It is refused, also if it replaces a directory or a
file meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat

from worldsize.common.atomic_files import Descriptor
from worldsize.common.named_tuple import TextIO
from worldsize.errors import StorageError
from worldsize.trust.directories import real_path
from worldsize.trust.links import MOST_LINKS, open_below, read_link
from worldsize.trust.owners import is_believed, is_ours


def write_document(path: str, data: bytes) -> None:
    """Replace `path` by a file with the content `data`, without following other users' links. A reader sees the old
    file or the new one, whole.

    Its mode is that of the old file if that was this user's, else determined by the umask. A link of this user or root
    is followed. A device or a pipe is written to. Raise OSError if that fails, also for another user's link.
    """
    parent, name = _open_parent(path)
    with Descriptor(parent) as directory:
        _write(directory, name, data)


def open_document(path: str, new: bool = False) -> TextIO:
    """Return an empty text file at `path`, opened for writing step by step. Links are handled as in `write_document`.
    Raise OSError if that fails; with `new`, FileExistsError if something exists there."""
    parent, name = _open_parent(path)
    with Descriptor(parent) as directory:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_EXCL if new else os.O_TRUNC)
        return open(os.open(name, flags, 0o666, dir_fd=directory), "w", encoding="utf-8")


def _write(directory: int, name: str, data: bytes) -> None:
    status = _status(name, directory)
    if status is not None and not stat.S_ISREG(status.st_mode) and not stat.S_ISLNK(status.st_mode):
        with open(os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory), "wb") as file:
            file.write(data)
        return
    part = f"{name}.{os.urandom(6).hex()}.part"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with open(os.open(part, flags, 0o666, dir_fd=directory), "wb") as file:
            if status is not None and stat.S_ISREG(status.st_mode) and is_ours(status):
                os.fchmod(file.fileno(), status.st_mode & 0o777)
            file.write(data)
        os.replace(part, name, src_dir_fd=directory, dst_dir_fd=directory)
    except OSError:
        if _status(part, directory) is not None:
            os.unlink(part, dir_fd=directory)
        raise


def _open_parent(path: str) -> tuple[int, str]:
    """Open the directory in which the file `path` is located, after following links. Return its descriptor and the name
    of the file in it, which was no link a moment ago. Raise OSError for another user's link."""
    for _ in range(MOST_LINKS):
        parent, name = os.path.split(os.path.abspath(path))
        real = _without_links(parent, path)
        directory = open_below(real)
        try:
            status, target = read_link(name, directory)
        except FileNotFoundError:
            return directory, name
        if not stat.S_ISLNK(status.st_mode):
            return directory, name
        os.close(directory)
        if not is_believed(status.st_uid):
            raise _foreign_link_error(path)
        path = os.path.join(real, target)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _without_links(directory: str, path: str) -> str:
    try:
        return real_path(directory, check_parents=False)
    except StorageError:
        raise _foreign_link_error(path) from None


def _foreign_link_error(path: str) -> OSError:
    return OSError(errno.EPERM, "it is another user's link", path)


def _status(name: str, directory: int) -> os.stat_result | None:
    try:
        return os.lstat(name, dir_fd=directory)
    except FileNotFoundError:
        return None
