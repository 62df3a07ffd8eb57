"""Read-only views of paths for this agent and its ranks: bind mounts in a mount namespace of their own (Linux).

An ordinary user needs a user namespace for this, which many systems forbid. In that case nothing is changed, and the
reason is returned.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from worldsize.agent.posix import mounts

_SAME_FLAGS = 2 | 4 | 8 | 1024 | 2048
"""The flags nosuid, nodev, noexec, noatime and nodiratime, which have the same numbers in statvfs and mount."""

_ST_RELATIME = 4096
_CHANGED = "it was replaced in the meantime"


def make_read_only(paths: Sequence[str], needed: str) -> list[str]:
    """Remount `paths` read-only for this process and its children. Return the reason, in words, for each path that
    could not be remounted. `needed`, the run directory, must stay writable: a path that contains it is not remounted.

    To be called by a process with one thread, before its ranks start, which inherit the mounts. No rank of an ordinary
    user can undo it. Each path is opened once; exchanging it afterwards has no effect.
    """
    refused = [_in_use_text(path) for path in paths if _contains_needed(path, needed)]
    wanted = [path for path in paths if not _contains_needed(path, needed)]
    why = try_read_only(wanted) if wanted else ""
    if why:  # a namespace that is half set up would leave this process without its user ID
        return [*refused, why]
    if wanted:
        _enter_own_namespace()
    for path in wanted:
        try:
            _bind_read_only(path, needed)
        except OSError as error:
            refused.append(f"{path}: {error.strerror}")
    return refused


def try_read_only(paths: Sequence[str]) -> str:
    """Return the reason why `paths` cannot be remounted read-only on this system; "" if they can. A child process tries
    it, so that the mounts of this process do not change."""

    def attempt() -> None:
        path = "mounts"
        try:
            _enter_own_namespace()
            for path in paths:
                _bind_read_only(path)
        except OSError as error:
            raise OSError(error.errno, f"{path}: {error.strerror}") from None

    return mounts.find_obstacle(attempt)


def _enter_own_namespace() -> None:
    mounts.unshare_namespaces(mounts.NEW_MOUNTS)
    mounts.detach_mounts(mounts.SLAVE)


def _bind_read_only(path: str, needed: str | None = None) -> None:
    place = mounts.open_path(path)
    try:
        if needed is not None and _is_above(place.path, needed):
            raise OSError(errno.EBUSY, _in_use_text(path))
        _remount_read_only(place)
    finally:
        place.close()


def _remount_read_only(place: mounts.OpenPath) -> None:
    """Remount the opened directory or file `place` read-only, without the mounts below it. Raise OSError if the system
    refuses it."""
    mounts.bind(place, place)
    top = _open_mount_on(place)
    try:
        found = os.statvfs(top.fd).f_flag
        kept = found & _SAME_FLAGS | (mounts.RELATIME if found & _ST_RELATIME else 0)
        mounts.mount("none", top.name, "", mounts.BIND | mounts.REMOUNT | mounts.READ_ONLY | kept)
    finally:
        top.close()


def _open_mount_on(place: mounts.OpenPath) -> mounts.OpenPath:
    """Open and return the bind mount that has just been made on the path of `place`; `place` itself still refers to the
    directory below the mount. Raise OSError if the path was exchanged meanwhile."""
    top = mounts.open_path(place.path)
    there, here = os.fstat(top.fd), os.fstat(place.fd)
    if (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino) or _mount_id(top) == _mount_id(place):
        top.close()
        raise OSError(116, _CHANGED)
    return top


def _mount_id(place: mounts.OpenPath) -> bytes:
    with open(f"/proc/self/fdinfo/{place.fd}", "rb") as file:
        return next(line for line in file if line.startswith(b"mnt_id:"))


def _contains_needed(path: str, needed: str) -> bool:
    """Return whether `needed`, the run directory, is `path` or is located below `path`. False if `path` cannot be
    opened: the error is reported later, when the path is mounted."""
    try:
        place = mounts.open_path(path)
    except OSError:
        return False
    try:
        return _is_above(place.path, needed)
    except OSError:
        return False
    finally:
        place.close()


def _is_above(real: str, needed: str) -> bool:
    return os.path.commonpath((real, os.path.realpath(needed))) == real


def _in_use_text(path: str) -> str:
    return f"{path} contains the run directory"
