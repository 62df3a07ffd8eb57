"""Who else can change a file or a directory, by its owner and its mode.

The same as for ssh's StrictModes and git's safe.directory: this user and root are believed, others are not. A group
that is this user's alone, as many systems make one for each user, is no other.
"""

from __future__ import annotations

import os
import stat


def danger_of(status: os.stat_result) -> str | None:
    """What is wrong with relying on what has this status: whose it is, or who may write to it; None where only this
    user and root can change it. A link's own mode says nothing: pass the status of what is relied on."""
    if status.st_uid not in (0, os.geteuid()):
        return "it belongs to %s" % user_name(status.st_uid)
    if status.st_mode & stat.S_IWOTH:
        return "everybody may write to it"
    if status.st_mode & stat.S_IWGRP and not is_private_group(status.st_gid):
        return "the group %s may write to it" % group_name(status.st_gid)
    return None


def is_ours(status: os.stat_result) -> bool:
    """Whether it is this user's; root's is not, but for root."""
    return status.st_uid == os.geteuid()


def is_private_group(gid: int) -> bool:
    """Whether a group has no member but this user: their own group, of their own name, that lists nobody else. Root's
    group counts as such where it lists nobody."""
    import grp
    import pwd

    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}


def user_name(uid: int) -> str:
    import pwd

    try:
        return "%s (uid %d)" % (pwd.getpwuid(uid).pw_name, uid)
    except KeyError:
        return "uid %d" % uid


def group_name(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return "%d" % gid
