"""Checks that a batch script runs on every node when its job starts: no other user may be able to replace what it
uses."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping

from worldsize.trust.directories import require_component

TRUST_FUNCTIONS = (
    'nl="',
    '"',
    "all_reliable() {   # no other user can replace what these paths, one in each line, lead to",
    '    local at todo="$1$nl" rounds=0 said owner group mode name',
    '    while [ -n "$todo" ]; do',
    "        set -- /",
    '        while [ -n "$todo" ]; do',
    "            at=${todo%%$nl*} todo=${todo#*$nl}",
    '            while [ -n "$at" ]; do set -- "$@" "$at"; at=${at%/*}; done',
    "        done",
    '        said=$(stat -c %u:%g:%A:%n/ "$@" 2>/dev/null) || return',
    "        set --",
    "        while IFS=: read -r owner group mode name; do",
    "            name=${name%/}",
    '            case $mode in l*) set -- "$@" "$name" ;; esac',
    '            case $TRUSTED in *"|$owner:$group:$mode:$name|"*) continue ;; esac',
    '            [ "$owner" = 0 ] || [ "$owner" = "$OWN" ] || return',
    "            case $mode in [lcbps]* | [d-]????-??-*) ;; d*[tT]) STICKY=$STICKY$name$nl ;; *) return 1 ;; esac",
    "        done <<END",
    "$said",
    "END",
    "        [ $# -gt 0 ] || return 0",
    '        rounds=$((rounds + 1)); [ "$rounds" -le 40 ] && said=$(readlink "$@") || return',
    "        while [ $# -gt 0 ] && IFS= read -r at; do   # where each of these links leads to",
    "            case $at in /*) ;; *) at=${1%/*}/$at ;; esac",
    "            todo=$todo$at$nl",
    "            shift",
    "        done <<END",
    "$said",
    "END",
    "        [ $# = 0 ] || return",
    "    done",
    "}",
    'reliable() { case $1 in *$nl*) return 1 ;; /*) all_reliable "$1" ;; *) return 1 ;; esac; }',
    "find_nearest() {   # NEAR is the existing part of a path, if no other user can create the rest",
    "    NEAR=$1",
    "    case $NEAR in *$nl*) return 1 ;; /*) ;; *) return 1 ;; esac",
    '    until [ -e "$NEAR" ] || [ -h "$NEAR" ] || [ -z "$NEAR" ]; do NEAR=${NEAR%/*}; done',
    "    NEAR=${NEAR:-/}",
    '    [ "$NEAR" = "$1" ] || [ ! -k "$NEAR" ]',
    "}",
    'usable() { find_nearest "$1" && all_reliable "$NEAR"; }',
    "all_usable() {   # the same of all of these, at once",
    '    local each all=""',
    '    for each; do find_nearest "$each" && all=$all$NEAR$nl || return; done',
    '    all_reliable "${all%$nl}"',
    "}",
    "all_with_python() {   # the same of these and PYTHON, at once",
    '    case $PYTHON in */*) all_usable "$PYTHON" "$@" ;; *) all_usable "$@" ;; esac',
    "}",
    "has_python() {",
    '    case $PYTHON in */*) [ -x "$PYTHON" ] ;; *) command -v "$PYTHON" >/dev/null 2>&1 ;; esac',
    "}",
    "choose_python() {   # python3 instead of a PYTHON that is not one of these and that another user could replace",
    "    local at",
    '    for at; do [ "$at" != "$PYTHON" ] || return 0; done',
    '    case $PYTHON in */*) usable "$PYTHON" || PYTHON=python3 ;; esac',
    "}",
    "require_usable() {   # the same one by one, naming the first that does not pass",
    "    local each",
    "    for each; do",
    '        usable "$each" && continue',
    '        printf "%s\\n" "worldsize agent: another user could replace $each on ${SLURMD_NODENAME:-this node}" >&2',
    "        return 1",
    "    done",
    "}",
    "ours() {   # a directory of yours that no other user can write to",
    '    local at="${1:-$RUN}" said',
    '    said=$(stat -c %u:%A "$at" "${at%/*}/" 2>/dev/null) || return',
    "    case $said in",
    '        "$OWN":d????-??-*) ;;',
    '        "$OWN":d*$nl*:d????w???[x-]) ;;   # as the mount shows all of that place, which you trust',
    '        "$OWN":d*$nl*:d???????w[x-]) ;;',
    "        *) return 1 ;;",
    "    esac",
    "}",
)
"""Shell functions that check paths. They are written for sh, since a container may have no bash, and contain no single
quote. OWN is the user's number.

`reliable` succeeds if each directory of the path, and of the paths that links lead to, belongs to root or the user and
is closed to others, or is sticky (STICKY then lists it), or is listed in TRUSTED in its present form. It fails for a
missing directory. Other users can move a directory that they can write to, and replace what is not the user's with a
link during the check. So `ours` reads owner, kind and mode in one call, and what it finds stays there.
"""

_MOST_LINKS = 40


def trusted_components(path: str, named: Iterable[str] = ()) -> str:
    """Return the value of the batch script's variable TRUSTED for `path`, a directory that passes
    `require_shared_directory`. The value lists the directories on the path that pass for another reason than owner and
    mode (the user trusts them, or their group is the user's own), each as UID:GID:MODE:PATH between "|"; "" if there
    are none.

    For the paths `named`, which the user has chosen here, it lists the directories as they are: a node must see the
    same. A missing directory is left out, and refused when the job starts. Each directory is checked by the status that
    is recorded for it. Raise StorageError if one does not pass, even if it changed a moment ago.
    """
    found = _chosen_components(named)
    for at, status in _path_components(path):
        if not _is_plain(status):
            require_component(at, status)
            found[at] = _entry(at, status)
    return _join_entries(found)


def trusted_paths(named: Iterable[str]) -> str:
    """Return the value of the batch script's variable TRUSTED for the paths `named`, which the user has chosen on this
    machine: UID:GID:MODE:PATH of each directory on these paths that other users may change, between "|"; "" if there
    are none."""
    return _join_entries(_chosen_components(named))


def _chosen_components(named: Iterable[str]) -> dict[str, str]:
    return {at: _entry(at, status) for each in named for at, status in _path_components(each) if not _is_plain(status)}


def _join_entries(found: Mapping[str, str]) -> str:
    return f"|{'|'.join(found.values())}|" if found else ""


def _path_components(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and the `os.lstat` result of each existing directory or file on `path`, from `path` itself up to
    the root, and of those on the paths that links on it lead to."""
    left, most = [path], _MOST_LINKS
    while left and most:
        at, most = left.pop(), most - 1
        while True:
            try:
                status = os.lstat(at or os.sep)
            except OSError:
                pass  # it will be created, or refused, when the job starts
            else:
                if stat.S_ISLNK(status.st_mode):
                    target = os.readlink(at)
                    left.append(target if os.path.isabs(target) else f"{at.rpartition('/')[0]}/{target}")
                yield at or os.sep, status
            if not at:
                break
            at = at.rpartition("/")[0]


def _entry(path: str, status: os.stat_result) -> str:
    return f"{status.st_uid}:{status.st_gid}:{stat.filemode(status.st_mode)}:{path}"


def _is_plain(status: os.stat_result) -> bool:
    mode = stat.filemode(status.st_mode)
    sticky = mode[0] == "d" and mode[-1] in "tT"
    closed = mode[0] == "l" or sticky or (mode[0] in "-d" and mode[5] == "-" and mode[8] == "-")
    return closed and status.st_uid in (0, os.geteuid())
