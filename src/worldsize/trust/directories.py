"""Directories that are relied on: what lies in them is executed, handed to ranks, or deleted.

private_directory   worldsize's own, below a home or a runs_dir: of this user alone, never a link
relied_on           one that a person named: nobody but this user and root can change it, or the user trusts it
shared_place        one in which several people may make directories of their own, and nobody touches another's
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from worldsize.errors import StorageError
from worldsize.trust.owners import danger_of, is_ours, user_name

_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def private_directory(path: str, follow: bool = False) -> str:
    """Make `path`, and parents that are missing, 0700 each; or see that it is a real directory of this user's that
    nobody else can write to. `follow` links that this user or root made.

    Returns the path. Raises StorageError for a link, another's directory, and one that others can write to, unless the
    user trusts them; OSError for what cannot be made.
    """
    os.close(open_private(followed(path) if follow else path))
    return path


def open_private(path: str, make: bool = True) -> int:
    """`private_directory`, as a descriptor: what is done through it is done in the directory that was looked at.
    OSError where it is missing and not to be made."""
    try:
        directory = os.open(path, _FLAGS)
    except FileNotFoundError:
        if not make:
            raise
        make_directories(path)
        return open_private(path, make=False)
    except OSError:
        if os.path.islink(path):
            raise refused(path, "it is a link") from None
        raise
    try:
        _check_private(path, os.fstat(directory))
    except BaseException:
        os.close(directory)
        raise
    return directory


def relied_on(path: str, make: bool = True, environ: Mapping[str, str] = os.environ) -> str:
    """See that what lies in the directory `path`, which a person named, may be relied on; where it is missing it is
    made, 0700, or may be made later. Links that this user or root made are followed.

    Returns the path. Raises StorageError where somebody else owns it or may write to it, unless the user trusts it.
    """
    real = followed(path)
    try:
        status = os.stat(real)
    except FileNotFoundError:
        if make:
            private_directory(real)
        return path
    danger = danger_of(status)
    if danger and not _is_trusted(real, status, environ):
        raise refused(path, danger)
    return path


def shared_place(path: str, environ: Mapping[str, str] = os.environ) -> str:
    """See that directories that this user makes in `path` stay this user's: it is relied on, or root's or this user's
    own with the sticky bit, as /tmp has it. Made where it is missing. Returns and raises as `relied_on`."""
    try:
        status = os.stat(followed(path))
    except FileNotFoundError:
        status = None
    if status and status.st_mode & stat.S_ISVTX and status.st_uid in (0, os.geteuid()) and stat.S_ISDIR(status.st_mode):
        return path
    return relied_on(path, environ=environ)


def refused(path: str, danger: str, what: str = "what lies there cannot be relied on") -> StorageError:
    """The error for a directory that others can change."""
    from worldsize.plan.files import display

    hint = (
        "name a directory of your own, or close it to others; or, if you trust all who can write there: "
        "worldsize config trust %s"
    )
    return StorageError("%s: %s" % (what, danger), display(path), hint % display(path))


def make_directories(directory: str) -> None:
    """Make `directory` and those above it that are missing: unlike os.makedirs, 0700 each. OSError."""
    parent = os.path.dirname(directory)
    if parent != directory and not os.path.isdir(parent):
        make_directories(parent)
    try:
        os.mkdir(directory, 0o700)
    except FileExistsError:
        if not os.path.isdir(directory):
            raise


def remove_tree(path: str) -> None:
    """Remove a directory of this user's with all that is in it, read-only directories too; links are not followed.
    Raises StorageError where it is another's; OSError."""
    import shutil

    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(20, os.strerror(20), path)
    if not is_ours(status):
        raise StorageError("is not removed: it belongs to %s" % user_name(status.st_uid), path)
    os.chmod(path, 0o700)
    for _, names, _, directory in os.fwalk(path):
        for name in names:
            inner = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISDIR(inner.st_mode) and is_ours(inner) and inner.st_mode & 0o700 != 0o700:
                os.chmod(name, 0o700, dir_fd=directory)
    shutil.rmtree(path)


def _check_private(path: str, status: os.stat_result) -> None:
    danger = danger_of(status) if is_ours(status) else "it belongs to %s" % user_name(status.st_uid)
    if danger is None or (is_ours(status) and _is_trusted(path, status, os.environ)):
        return
    raise refused(path, danger)


def followed(path: str) -> str:
    """Where `path` leads by links that this user or root made. StorageError for another's link."""
    for _ in range(40):
        try:
            status = os.lstat(path)
        except OSError:
            return path
        if not stat.S_ISLNK(status.st_mode):
            return path
        if status.st_uid not in (0, os.geteuid()):
            raise refused(path, "the link belongs to %s" % user_name(status.st_uid))
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    raise StorageError("too many links", path)


def _is_trusted(path: str, status: os.stat_result, environ: Mapping[str, str]) -> bool:
    from worldsize.trust.decisions import decided_about_directory

    return bool(decided_about_directory(path, status, environ))
