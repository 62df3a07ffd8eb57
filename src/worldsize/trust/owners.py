"""Checks of who else can change a file or a directory, by its owner and its mode.

The rule is that of ssh's StrictModes and git's safe.directory: this user and root are trusted, others are not. A group
of which this user is the only member, as many systems make one for each user, does not count as others.
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache

_ACCESS_LIST = "system.posix_acl_access"


def danger_of(status: os.stat_result, place: str | int | None = None) -> str | None:
    """Return why a file or directory with the stat `status` cannot be relied on, which is its owner, or who may write
    to it; None if only this user and root can change it. A link's own mode is meaningless: pass the status of its
    target. `place` is the path or descriptor of the entry: an access list on it can let others than the group write,
    where the mode shows the group's right."""
    if not is_believed(status.st_uid):
        return f"it belongs to {user_name(status.st_uid)}"
    if status.st_mode & stat.S_IWOTH:
        return "every user may write to it"
    if status.st_mode & stat.S_IWGRP and not is_private_group(status.st_gid):
        return f"the group {group_name(status.st_gid)} may write to it"
    if status.st_mode & stat.S_IWGRP and place is not None and access_list(place):
        return "its access list lets other users write to it"
    return None


def is_believed(uid: int) -> bool:
    """Return whether files of the user id `uid` are trusted: it is this user, root, or the owner of /, which need not
    be 0 in a user namespace."""
    return uid in (0, os.geteuid(), _owner_of_root()) and not is_unknown(uid)


def is_unknown(uid: int) -> bool:
    """Return whether `uid` is the one number that the kernel shows for all users that this process's user namespace
    does not map. Root and other users cannot be distinguished by it."""
    return uid == _unmapped_uid()


@lru_cache
def _owner_of_root() -> int:
    return os.stat("/").st_uid


@lru_cache
def _unmapped_uid() -> int | None:
    """Return the user id that the kernel shows in place of owners without one in this user namespace (overflowuid);
    None if every owner has a number, or the number cannot be read."""
    try:
        with open("/proc/sys/kernel/overflowuid") as file:
            number = int(file.read())
        with open("/proc/self/uid_map") as file:
            spans = [tuple(map(int, line.split())) for line in file]
    except (OSError, ValueError):
        return None
    return None if any(first <= number < first + count for first, _, count in spans) else number


def access_list(place: str | int) -> bytes:
    """Return the POSIX access list of the file at the path or descriptor `place`, in the kernel's format; empty if the
    mode alone determines access."""
    try:
        return os.getxattr(place, _ACCESS_LIST)
    except (OSError, AttributeError):
        return b""


def is_ours(status: os.stat_result) -> bool:
    """Return whether a file or directory with the stat `status` belongs to this user. Root's entries do not, unless
    this user is root."""
    return status.st_uid == os.geteuid() and not is_unknown(status.st_uid)


def is_private_group(gid: int) -> bool:
    """Return whether this user is the only member of the group `gid`. Its name must be the user's, it must be the
    user's first group, list no other member, and be no other user's first group, as far as the system lists its users.
    For root, the last condition is not required. The group of a user without a name is private if it has the user's
    number and no name, as in containers."""
    import grp
    import pwd

    try:
        user = pwd.getpwuid(os.geteuid())
    except KeyError:
        return gid == os.geteuid() == os.getegid() and group_name(gid) == str(gid)
    try:
        group = grp.getgrgid(gid)
    except KeyError:
        return False
    if user.pw_gid != gid or group.gr_name != user.pw_name or not set(group.gr_mem) <= {user.pw_name}:
        return False
    return user.pw_uid == 0 or _is_first_group_of_one(gid, user.pw_uid)


@lru_cache
def _is_first_group_of_one(gid: int, uid: int) -> bool:
    import pwd

    return all(each.pw_uid == uid for each in pwd.getpwall() if each.pw_gid == gid)


def is_own_process(pid: int) -> bool:
    """Return whether all user ids of the process `pid` are this user's. The owner of its files in /proc is not
    sufficient, since the kernel assigns them to root if the process makes itself unreadable. Raise OSError if the
    process is gone."""
    with open(f"/proc/{pid}/status", "rb") as file:
        ids = next((line.split()[1:] for line in file if line.startswith(b"Uid:")), [])
    return ids == [b"%d" % os.geteuid()] * 4


def user_name(uid: int) -> str:
    if is_unknown(uid):
        return "a user unknown in this user namespace"
    name = login_name(uid)
    return f"{name} (uid {uid})" if name else f"uid {uid}"


def login_name(uid: int) -> str | None:
    """Return the login name of the user with the id `uid`; None if this machine knows none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def group_name(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
