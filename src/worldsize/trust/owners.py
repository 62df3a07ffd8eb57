"""Who else can change a file or a directory, by its owner and its mode.

The same as for ssh's StrictModes and git's safe.directory: this user and root are believed, others are not. A group
that is this user's alone, as many systems make one for each user, is no other.
"""

from __future__ import annotations

import os
import stat
from functools import lru_cache

_ACCESS_LIST = "system.posix_acl_access"


def danger_of(status: os.stat_result, place: str | int | None = None) -> str | None:
    """What is wrong with relying on what has this status: whose it is, or who may write to it; None where only this
    user and root can change it. A link's own mode says nothing: pass the status of what is relied on. `place`, its path
    or descriptor: an access list there lets others than the group write, where the mode shows the group's right."""
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
    """Return whether `uid` is this user or root: the owner of / too, which need not be 0 in a user namespace."""
    return uid in (0, os.geteuid(), _owner_of_root()) and not is_unknown(uid)


def is_unknown(uid: int) -> bool:
    """Return whether it stands for everybody whom this process's user namespace does not map: root and all other users
    look the same there."""
    return uid == _unmapped_uid()


@lru_cache
def _owner_of_root() -> int:
    return os.stat("/").st_uid


@lru_cache
def _unmapped_uid() -> int | None:
    """Return the number that the kernel shows in place of owners without one; None where every owner has one."""
    try:
        with open("/proc/sys/kernel/overflowuid") as file:
            number = int(file.read())
        with open("/proc/self/uid_map") as file:
            spans = [tuple(map(int, line.split())) for line in file]
    except (OSError, ValueError):
        return None
    return None if any(first <= number < first + count for first, _, count in spans) else number


def access_list(place: str | int) -> bytes:
    """Return the access list of a path or a descriptor, as the kernel has it; empty where the mode says all."""
    try:
        return os.getxattr(place, _ACCESS_LIST)
    except (OSError, AttributeError):
        return b""


def is_ours(status: os.stat_result) -> bool:
    """Return whether what has this status is this user's; root's is not, but for root."""
    return status.st_uid == os.geteuid() and not is_unknown(status.st_uid)


def is_private_group(gid: int) -> bool:
    """Return whether a group has no member but this user: their own group, of their own name, that lists nobody else,
    and that is nobody else's first one, as far as the system lists its users. Root's group counts as such where it
    lists nobody; and the group of a user without a name, with their number and no name, as containers have them."""
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
    """Return whether all of a process's user ids are this user's. Who owns its files in /proc does not tell: the kernel
    gives them to root where the process wants to be unreadable. OSError where it is gone."""
    with open(f"/proc/{pid}/status", "rb") as file:
        ids = next((line.split()[1:] for line in file if line.startswith(b"Uid:")), [])
    return ids == [b"%d" % os.geteuid()] * 4


def user_name(uid: int) -> str:
    if is_unknown(uid):
        return "a user unknown in this user namespace"
    name = login_name(uid)
    return f"{name} (uid {uid})" if name else f"uid {uid}"


def login_name(uid: int) -> str | None:
    """Return the user's name; None where this machine knows none."""
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
