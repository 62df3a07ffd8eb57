"""Files that worldsize writes for a person to keep, where others may be able to write, too: a lock file, a job, a
configuration."""

from __future__ import annotations

import errno
import os
import stat
from typing import TextIO

from worldsize.trust.owners import is_believed

_MOST_LINKS = 40


def write_document(path: str, data: bytes) -> None:
    """Replaces `path` by a file that holds `data`; a reader sees the old file or the new one, whole.

    Its mode is the old one's, else what the umask leaves. A link of this user's or root's is followed; a device or a
    pipe is written to. OSError, also for a link of somebody else's: it could lead to any file of this user's.
    """
    target = document_target(path)
    mode = _mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        with open(os.open(target, os.O_WRONLY | os.O_NOFOLLOW), "wb") as file:
            file.write(data)
        return
    part = "%s.%s.part" % (target, os.urandom(6).hex())
    try:
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            if mode is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(mode))
            file.write(data)
        os.replace(part, target)
    except OSError:
        if os.path.lexists(part):
            os.unlink(part)
        raise


def document_target(path: str) -> str:
    """Where `path` leads: to what is no link now, and is to be replaced, or opened without following one, by that name.
    OSError for a link of somebody else's."""
    for _ in range(_MOST_LINKS):
        directory, name = os.path.split(os.path.abspath(path))
        path = os.path.join(os.path.realpath(directory), name)
        status = _status(path)
        if status is None or not stat.S_ISLNK(status.st_mode):
            return path
        if not is_believed(status.st_uid):
            raise OSError(errno.EPERM, "it is a link of somebody else's", path)
        leads = os.readlink(path)
        if not os.path.samestat(status, os.lstat(path)):
            raise OSError(errno.EAGAIN, "it is being exchanged", path)
        path = os.path.join(os.path.dirname(path), leads)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def open_document(path: str) -> TextIO:
    """An empty file at `path`, to be written little by little; a link as with `write_document`. OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    return open(os.open(document_target(path), flags, 0o666), "w", encoding="utf-8")


def _mode(path: str) -> int | None:
    status = _status(path)
    return status.st_mode if status and not stat.S_ISLNK(status.st_mode) else None


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None
