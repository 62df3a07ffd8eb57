"""Paths that this agent and its ranks see read-only: bind mounts in a namespace of their own (Linux).

An ordinary user needs a user namespace for it, which many systems forbid: then nothing is changed, and said.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from worldsize.agent.posix import mounts

_SAME_FLAGS = 2 | 4 | 8 | 1024 | 2048
"""nosuid, nodev, noexec, noatime, nodiratime: statvfs and mount have the same numbers for them."""

_ST_RELATIME = 4096
_CHANGED = "it was replaced in the meantime"


def make_read_only(paths: Sequence[str], needed: str) -> list[str]:
    """Why not, in words, for each path where it was not possible. `needed` must stay writable: what holds it is left.

    To be called by a process of one thread, before its ranks start: they inherit it. No rank of an ordinary user can
    take it back. Each path is opened once; exchanging it afterwards has no effect.
    """
    refused = [_in_use_text(path) for path in paths if _contains_needed(path, needed)]
    wanted = [path for path in paths if not _contains_needed(path, needed)]
    why = try_read_only(wanted) if wanted else ""
    if why:  # half of it would leave us without a user's number
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
    """Why it is not possible here; "" where it is. Tried by a process of its own: nothing changes for this one."""

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
    """The place can be read and no longer written, but for what is mounted below it. Raises OSError."""
    mounts.bind(place, place)
    top = _open_mount_on(place)
    try:
        found = os.statvfs(top.fd).f_flag
        kept = found & _SAME_FLAGS | (mounts.RELATIME if found & _ST_RELATIME else 0)
        mounts.mount("none", top.name, "", mounts.BIND | mounts.REMOUNT | mounts.READ_ONLY | kept)
    finally:
        top.close()


def _open_mount_on(place: mounts.OpenPath) -> mounts.OpenPath:
    """Return the mount that has just been made on a place, which itself goes on to show what was there before."""
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
    """False for what cannot be found: it is missed later, where it is to be mounted."""
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
