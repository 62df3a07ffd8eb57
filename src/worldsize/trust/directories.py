"""Directories that are relied on: what lies in them is executed, handed to ranks, or deleted.

private_directory   worldsize's own, below a home or a runs_dir: of this user alone, never a link
relied_on           one that a person named: nobody but this user and root can change it, or the user trusts it
shared_place        one in which several people may make directories of their own, and nobody touches another's
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from worldsize.errors import StorageError, UsageError
from worldsize.trust.owners import danger_of, is_believed, is_ours, user_name

_MOST_LINKS = 40
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def private_directory(path: str, follow: bool = False) -> str:
    """Make `path`, and parents that are missing, 0700 each; or see that it is a real directory of this user's that
    nobody else can write to. `follow`: it may itself be a link that this user or root made.

    Returns the path. Raises StorageError for a link, another's directory, and one that others can write to or replace,
    unless the user trusts them; OSError for what cannot be made.
    """
    os.close(open_private(real_path(path) if follow else path))
    return path


def open_private(path: str, make: bool = True) -> int:
    """`private_directory`, as a descriptor: what is done through it is done in the directory that was looked at.
    OSError where it is missing and not to be made."""
    parent, name = os.path.split(os.path.abspath(path))
    real = os.path.join(real_path(parent), name)
    try:
        directory = os.open(real, _FLAGS)
    except FileNotFoundError:
        if not make:
            raise
        make_directories(real)
        return open_private(path, make=False)
    except OSError:
        if os.path.islink(real):
            raise refused(path, "it is a link") from None
        raise
    try:
        _check_private(real, directory)
    except BaseException:
        os.close(directory)
        raise
    return directory


def relied_on(path: str, make: bool = True, environ: Mapping[str, str] = os.environ) -> str:
    """See that what lies in the directory `path`, which a person named, may be relied on; where it is missing it is
    made, 0700, or may be made later. Links that this user or root made are followed.

    Returns the path. Raises StorageError where somebody else owns it, may write to it or replace it, unless the user
    trusts it.
    """
    real = real_path(path, environ)
    try:
        status = os.stat(real)
    except FileNotFoundError:
        if make:
            private_directory(real)
        return path
    danger = danger_of(status, real)
    if danger and not _is_trusted(real, status, environ):
        raise refused(path, danger)
    return path


def is_relied_on(path: str) -> bool:
    """Whether it is there and `relied_on` has nothing against it."""
    try:
        return os.path.isdir(relied_on(path, make=False))
    except (StorageError, OSError):
        return False


def shared_place(path: str, environ: Mapping[str, str] = os.environ) -> str:
    """See that directories that this user makes in `path` stay this user's: it is relied on, or root's or this user's
    own with the sticky bit, as /tmp has it. Made where it is missing. Returns and raises as `relied_on`."""
    real = real_path(path, environ)
    try:
        status = os.stat(real)
    except FileNotFoundError:
        return relied_on(path, environ=environ)
    return path if stat.S_ISDIR(status.st_mode) and _is_sticky(status) else relied_on(path, environ=environ)


def _is_sticky(status: os.stat_result) -> bool:
    """Nobody but its owner, who is believed, can replace what others have put there."""
    return bool(status.st_mode & stat.S_ISVTX) and is_believed(status.st_uid)


def stranger(path: str) -> int | None:
    """The uid of another user whose directory this is; None for this user's own, for one that this user trusts, and
    where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return None if is_ours(status) or _is_trusted(path, status, os.environ) else status.st_uid


def refuse_strangers(path: str, owner: int | None, verb: str) -> None:
    """UsageError where a run's directory is a `stranger`'s: what it says would be done in this user's name."""
    if owner is not None:
        what = "%s is for runs of your own, and this directory belongs to %s" % (verb, user_name(owner))
        raise UsageError(what, path, "whoever started it can do that")


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

    directory = os.open(path, _FLAGS)
    try:
        status = os.fstat(directory)
        if not is_ours(status):
            raise StorageError("is not removed: it belongs to %s" % user_name(status.st_uid), path)
        os.fchmod(directory, 0o700)
        for _, names, _, within in os.fwalk(".", dir_fd=directory):
            for name in names:
                inner = os.stat(name, dir_fd=within, follow_symlinks=False)
                if stat.S_ISDIR(inner.st_mode) and is_ours(inner) and inner.st_mode & 0o700 != 0o700:
                    os.chmod(name, 0o700, dir_fd=within)
    finally:
        os.close(directory)
    shutil.rmtree(path)


def real_path(path: str, environ: Mapping[str, str] = os.environ) -> str:
    """Where `path` leads, component by component, by links that this user or root made; what is missing stays as it is
    named.

    Raises StorageError for another's link, and for a directory on the way, the last left out, in which others could
    put something else in the place of what is there, unless the user trusts it.
    """
    left = os.path.join(os.getcwd(), path).split(os.sep)[::-1]
    real, links = os.sep, 0
    while left:
        name = left.pop()
        if name in ("", "."):
            continue
        if name == "..":
            real = os.path.dirname(real)
            continue
        child = os.path.join(real, name)
        try:
            status = os.lstat(child)
        except FileNotFoundError:
            return os.path.normpath(os.path.join(child, *left[::-1]))
        _check_place(real, environ)
        if not stat.S_ISLNK(status.st_mode):
            real = child
            continue
        if not is_believed(status.st_uid):
            raise refused(child, "the link belongs to %s" % user_name(status.st_uid))
        links += 1
        if links > _MOST_LINKS:
            raise StorageError("too many links", path)
        target = os.readlink(child)
        if os.path.isabs(target):
            real = os.sep
        left += target.split(os.sep)[::-1]
    return real


def _check_place(directory: str, environ: Mapping[str, str]) -> None:
    status = os.stat(directory)
    danger = None if _is_sticky(status) else danger_of(status, directory)
    if danger and not _is_trusted(directory, status, environ):
        raise refused(directory, danger, "what lies in it could be replaced")


def _check_private(path: str, directory: int) -> None:
    status = os.fstat(directory)
    danger = danger_of(status, directory) if is_ours(status) else "it belongs to %s" % user_name(status.st_uid)
    if danger and not _is_trusted(path, status, os.environ):
        raise refused(path, danger)


def _is_trusted(path: str, status: os.stat_result, environ: Mapping[str, str]) -> bool:
    from worldsize.trust.decisions import decided_about_directory

    return bool(decided_about_directory(path, status, environ))
