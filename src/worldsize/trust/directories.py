"""Checks of directories whose content worldsize executes, hands to ranks or deletes, for whether other users could
change them.

make_private_directory      worldsize's own, below a home or a runs_dir: this user's alone, never a link
require_reliable_directory  one that a person named: only this user and root can change it, or the user trusts it
require_shared_directory    one where several people may make directories, and none can touch another's
user_directory_in           a directory of this user's in such a place, for everything that must last there
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping

from worldsize.common.atomic_files import Descriptor
from worldsize.errors import StorageError, UsageError
from worldsize.trust.links import follow_links, require_link, unsafe_directory_error, with_parents
from worldsize.trust.owners import danger_of, is_believed, is_ours, is_unknown, user_name

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NODE_LOCAL = ("/tmp", "/dev/shm", "/run", "/var/run")  # nosec B108  # only compared


def make_private_directory(path: str, follow: bool = False) -> str:
    """Make the directory `path` and its missing parents with mode 0700. If it exists, check that it is a directory of
    this user to which no other user can write. With `follow`, `path` itself may be a link, if this user or root made
    it.

    Return `path`. Raise StorageError for a link, for another user's directory, and for one that others can write to or
    replace, unless this user trusts them; OSError if it cannot be made.
    """
    os.close(open_private_directory(real_path(path) if follow else path))
    return path


def open_private_directory(path: str, make: bool = True) -> int:
    """Make or check the directory `path` as `make_private_directory` does, and return a descriptor for it. Code that
    works in the directory through the descriptor is safe against its replacement afterwards.

    Raise the errors of `make_private_directory`; without `make`, FileNotFoundError for a missing directory.
    """
    parent, name = os.path.split(os.path.abspath(path))
    real = os.path.join(real_path(parent), name)
    try:
        directory = os.open(real, _FLAGS)
    except FileNotFoundError:
        if not make:
            raise
        _check_safe_parent(next(filter(os.path.isdir, with_parents(os.path.dirname(real)))), os.environ)
        make_directories(real)
        return open_private_directory(path, make=False)
    except OSError:
        if os.path.islink(real):
            raise unsafe_directory_error(path, "it is a link") from None
        raise
    try:
        _check_safe_parent(os.path.dirname(real), os.environ)
        _check_private(real, directory)
    except BaseException:
        os.close(directory)
        raise
    return directory


def require_reliable_directory(path: str, make: bool = True, environ: Mapping[str, str] = os.environ) -> str:
    """Check that the directory `path`, which a person named, can be changed only by this user and root. Links are
    followed if this user or root made them. A missing directory is made with mode 0700, or left alone without `make`.

    Return `path`. Raise StorageError if another user owns it, can write to it or can replace it, unless this user
    trusts it.
    """
    real = real_path(path, environ)
    try:
        status = os.stat(real)
    except FileNotFoundError:
        if make:
            make_private_directory(real)
        return path
    danger = danger_of(status, real)
    if danger and not _is_trusted(real, status, environ):
        raise unsafe_directory_error(path, danger)
    return path


def is_reliable_directory(path: str) -> bool:
    """Return whether the directory `path` exists and passes `require_reliable_directory`: only this user and root can
    change it, or this user trusts it."""
    try:
        return os.path.isdir(require_reliable_directory(path, make=False))
    except (StorageError, OSError):
        return False


def require_shared_directory(path: str, make: bool = True) -> str:
    """Check that other users cannot touch the directories that this user makes in `path`: it is reliable, or it has the
    sticky bit and belongs to root or this user, like /tmp. It is made if it is missing, or left alone without `make`.

    Return `path`. Raise the errors of `require_reliable_directory`.
    """
    try:
        status = os.stat(real_path(path))
        if stat.S_ISDIR(status.st_mode) and _is_sticky(status):
            return path
    except FileNotFoundError:
        pass
    return require_reliable_directory(path, make)


def user_directory_in(path: str) -> str:
    """Return the directory for this user's entries in the directory `path`, which a person named. It is that directory
    itself, or, where others can make entries too, as in /tmp, its subdirectory `runs-UID`. In the subdirectory, no
    other user can create an entry under a name that this user has removed, or has not created yet."""
    try:
        status = os.stat(path)
    except OSError:
        return path
    shared = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX and status.st_mode & _OTHERS_WRITE
    return os.path.join(path, f"runs-{os.getuid()}") if shared else path


def may_others_create(path: str) -> bool:
    """Return whether the file or directory to which `path` leads, also by links, is missing, and another user could
    create it now."""
    real = os.path.realpath(path)
    there = next(filter(os.path.lexists, with_parents(real)))
    return there != real and os.path.isdir(there) and bool(os.stat(there).st_mode & _OTHERS_WRITE)


def _is_sticky(status: os.stat_result) -> bool:
    """Return whether a directory with the stat `status` has the sticky bit and a trusted owner, so that users cannot
    replace the entries of others."""
    return bool(status.st_mode & stat.S_ISVTX) and is_believed(status.st_uid)


def foreign_owner(path: str) -> str | None:
    """Return a text that names the other user who owns the directory `path`, or the link that `path` is; None if the
    directory is this user's own, trusted, or missing."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            if not is_believed(status.st_uid):
                return f"it is a link of {user_name(status.st_uid)}"
            status = os.stat(path)
    except OSError:
        return None
    if is_ours(status) or _is_trusted(path, status, os.environ):
        return None
    return f"it belongs to {user_name(status.st_uid)}"


def is_own_directory(path: str) -> bool:
    """Return whether the directory `path` exists and is this user's own, or trusted. It is examined once, by a
    descriptor. Where users cannot move entries of others, the answer stays valid."""
    try:
        with Descriptor(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)) as directory:
            status = os.fstat(directory)
    except OSError:
        return False
    return is_ours(status) or _is_trusted(path, status, os.environ)


def foreign_danger(path: str) -> str | None:
    """Return the reason why the contents of the run directory `path` must not be executed in this user's name: it has a
    `foreign_owner`, or others can write to it or replace it. None if it is this user's alone, trusted, or missing."""
    found = foreign_owner(path) or replacement_danger(path)
    if found:
        return found
    try:
        status = os.stat(path)
    except OSError:
        return None
    danger = danger_of(status, path)
    return danger if danger and not _is_trusted(path, status, os.environ) else None


def replacement_danger(path: str) -> str | None:
    """Return a text about how other users could replace the file or directory at `path`; None if they could not."""
    try:
        real_path(path)
    except StorageError as error:
        return f"in {error.where} other users could replace it: {error.what.rpartition(': ')[2]}"
    except OSError:
        pass
    return None


def refuse_foreign(path: str, danger: str | None, verb: str) -> None:
    """Raise UsageError if `danger`, the text why the run directory `path` cannot be trusted (such as its
    `foreign_danger`), is not None. `verb` is the command that is refused."""
    if danger is not None:
        hint = f"the user who started it can do that; if you trust everything in it: worldsize config trust {path}"
        raise UsageError(f"{verb} is for runs of your own: {danger}", path, hint)


def make_directories(directory: str) -> None:
    """Make `directory` and all missing directories above it. Unlike os.makedirs, each gets mode 0700. A
    `user_directory_in` gets 0711, since it may contain runs for a group to read. Raise OSError if that fails."""
    parent = os.path.dirname(directory)
    if parent != directory and not os.path.isdir(parent):
        make_directories(parent)
    try:
        os.mkdir(directory, 0o711 if directory == user_directory_in(parent) else 0o700)
        drop_access_lists(directory)
    except FileExistsError:
        if not os.path.isdir(directory):
            raise


def drop_access_lists(path: str) -> None:
    """Remove the access lists (POSIX ACLs) of the new directory `path` of this user, which it inherits from the one
    above, so that only the mode determines access to it and to what will be made in it. If they cannot be removed,
    there are none."""
    for name in ("system.posix_acl_default", "system.posix_acl_access"):
        try:
            os.removexattr(path, name)
        except (OSError, AttributeError):
            pass


def real_path(
    path: str, environ: Mapping[str, str] = os.environ, check_parents: bool = True, also: int | None = None
) -> str:
    """Return the real path of `path`. Links are followed if this user, root or the user `also` made them. Components
    that do not exist stay as they are named.

    Raise StorageError for another user's link, and with `check_parents` for a directory on the way in which others
    could replace what `path` names, unless this user trusts it.
    """
    return follow_links(
        path, (lambda directory: _check_safe_parent(directory, environ)) if check_parents else None, also
    )


def require_component(path: str, status: os.stat_result) -> None:
    """Check that `path`, one component of a longer path, is safe by its own status (lstat). It must be a link of this
    user or root, or a directory in which others cannot replace anything, or that this user trusts. Raise StorageError
    if it is not."""
    if not stat.S_ISLNK(status.st_mode):
        _require_safe_parent(path, status, os.environ)
    else:
        require_link(path, status)


def _check_safe_parent(directory: str, environ: Mapping[str, str]) -> None:
    _require_safe_parent(directory, os.stat(directory), environ)


def _require_safe_parent(directory: str, status: os.stat_result, environ: Mapping[str, str]) -> None:
    if is_unknown(status.st_uid) and os.path.dirname(directory) == os.sep:
        status = _with_root_owner(status)
    danger = None if _is_sticky(status) else danger_of(status, directory)
    if danger and not _is_trusted(directory, status, environ):
        raise unsafe_directory_error(directory, danger, "its content could be replaced")


def _with_root_owner(status: os.stat_result) -> os.stat_result:
    """Return a copy of the stat result `status` with root as owner. It is used for a directory directly in /, where
    only root can make entries."""
    return os.stat_result((*status[:4], 0, *status[5:10]))


def _check_private(path: str, directory: int) -> None:
    status = os.fstat(directory)
    danger = danger_of(status, directory) if is_ours(status) else f"it belongs to {user_name(status.st_uid)}"
    if danger and not _is_trusted(path, status, os.environ):
        raise unsafe_directory_error(path, danger)


def _is_trusted(path: str, status: os.stat_result, environ: Mapping[str, str]) -> bool:
    from worldsize.trust.decisions import decision_about_directory

    return bool(decision_about_directory(path, status, environ))


def is_node_local(path: str) -> bool:
    """Return whether the real path of `path` is in a place of which every machine of a cluster has its own, such as
    /tmp."""
    real = os.path.realpath(path)
    return any(real == place or real.startswith(place + os.sep) for place in _NODE_LOCAL)
