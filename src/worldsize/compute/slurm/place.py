"""The directory of runs as a batch script checks it when its job starts: no other user may be able to replace it."""

from __future__ import annotations

import os
import stat

from worldsize.trust.directories import require_component

RELIABLE = (
    "reliable() {   # no other user can replace what this path leads to",
    "    local at=$1 all=(/) links=() said owner group mode name",
    '    [ "${2:-0}" -lt 40 ] || return',
    '    while [ -n "$at" ]; do all+=("$at"); at=${at%/*}; done',
    '    said=$(stat -c %u:%g:%A:%n/ "${all[@]}") || return',
    "    while IFS=: read -r owner group mode name; do",
    "        name=${name%/}",
    '        case $mode in l*) links+=("$name") ;; esac',
    '        case $TRUSTED in *"|$owner:$group:$mode:$name|"*) continue ;; esac',
    '        [ "$owner" = 0 ] || [ "$owner" = "$EUID" ] || return',
    "        case $mode in l* | d????-??-* | d*[tT]) ;; *) return 1 ;; esac",
    '    done <<<"$said"',
    '    for name in "${links[@]}"; do',
    '        at=$(readlink "$name")',
    "        case $at in /*) ;; *) at=${name%/*}/$at ;; esac",
    '        reliable "$at" $((${2:-0} + 1)) || return',
    "    done",
    "}",
)
"""A bash function. It succeeds if each directory of the path, and of the paths that links lead to, belongs to root or
the user and is closed to others, or is sticky, or is listed in TRUSTED as it is now. It fails for a missing one."""

_MOST_LINKS = 40


def trusted_on_the_way(path: str) -> str:
    """The value of TRUSTED for a directory that passes `require_shared_place`: the directories of its path that pass
    for another reason than owner and mode (the user trusts them, or their group is the user's own), each as
    UID:GID:MODE:PATH between "|"; "" without any. What is missing is left out: it is refused when the job starts. Each
    is judged by what is written down of it. StorageError for one that does not pass, perhaps since a moment ago."""
    found: dict[str, str] = {}
    left, most = [path], _MOST_LINKS
    while left and most:
        at, most = left.pop(), most - 1
        while True:
            try:
                status = os.lstat(at or os.sep)
            except OSError:
                pass  # it will be made, or refused when the job starts
            else:
                mode = stat.filemode(status.st_mode)
                if stat.S_ISLNK(status.st_mode):
                    target = os.readlink(at)
                    left.append(target if os.path.isabs(target) else "%s/%s" % (at.rpartition("/")[0], target))
                if not _is_plain(status, mode):
                    require_component(at or os.sep, status)
                    found[at or os.sep] = "%d:%d:%s:%s" % (status.st_uid, status.st_gid, mode, at or os.sep)
            if not at:
                break
            at = at.rpartition("/")[0]
    return "|%s|" % "|".join(found.values()) if found else ""


def _is_plain(status: os.stat_result, mode: str) -> bool:
    closed = mode[0] == "l" or mode[-1] in "tT" or (mode[5] == "-" and mode[8] == "-")
    return closed and status.st_uid in (0, os.geteuid())
