"""Files that worldsize writes for a person to keep, where others may be able to write, too: a lock file, a job, a
configuration."""

from __future__ import annotations

import errno
import os
import stat

from worldsize.trust.owners import is_believed


def write_document(path: str, data: bytes) -> None:
    """Replaces `path` by a file that holds `data`; a reader sees the old file or the new one, whole.

    Its mode is the old one's, else what the umask leaves. A link of this user's or root's is followed; a device or a
    pipe is written to. OSError, also for a link of somebody else's: it could lead to any file of this user's.
    """
    target = document_target(path)
    mode = _mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        with open(target, "wb") as file:
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
    """Where `path` leads. OSError for a link of somebody else's."""
    if os.path.islink(path) and not is_believed(os.lstat(path).st_uid):
        raise OSError(errno.EPERM, "it is a link of somebody else's", path)
    return os.path.realpath(path)


def _mode(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None
