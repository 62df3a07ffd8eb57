"""Paths that this agent and its ranks see read-only: bind mounts in a namespace of their own (Linux).

An ordinary user needs a user namespace for it, which many systems forbid: then nothing is changed, and said.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_RDONLY, _REMOUNT, _BIND, _REC, _SLAVE, _RELATIME = 1, 32, 4096, 16384, 1 << 19, 1 << 21
_SAME_FLAGS = 2 | 4 | 8 | 1024 | 2048
"""nosuid, nodev, noexec, noatime, nodiratime: statvfs and mount have the same numbers for them."""

_ST_RELATIME = 4096


def make_read_only(paths: Sequence[str], needed: str) -> list[str]:
    """Why not, in words, for each path where it was not possible. `needed` must stay writable: what holds it is left.

    To be called by a process of one thread, before its ranks start: they inherit it. No rank of an ordinary user can
    take it back.
    """
    wanted = [path for path in paths if not _holds(path, needed)]
    refused = ["%s holds the run directory" % path for path in paths if path not in wanted]
    why = try_read_only(wanted) if wanted else ""
    if why:  # half of it would leave us without a user's number
        return [*refused, why]
    if wanted:
        _own_namespace()
    for path in wanted:
        _bind_read_only(os.path.realpath(path))
    return refused


def try_read_only(paths: Sequence[str]) -> str:
    """Why it is not possible here; "" where it is. Tried by a process of its own: nothing changes for this one."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        path = "mounts"
        try:
            _own_namespace()
            for path in paths:
                _bind_read_only(os.path.realpath(path))
        except OSError as error:
            os.write(writing, ("%s: %s" % (path, error.strerror)).encode()[:4000])
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as said:
        text = said.read().decode(errors="replace")
    os.waitpid(pid, 0)
    return text


def _holds(path: str, needed: str) -> bool:
    real = os.path.realpath(path)
    return os.path.commonpath((real, os.path.realpath(needed))) == real


def _own_namespace() -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", _NEWNS)
    except PermissionError:
        _call("unshare", _NEWUSER | _NEWNS)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", "%d %d 1" % (user, user)),
            ("gid_map", "%d %d 1" % (group, group)),
        ):
            with open("/proc/self/" + name, "w") as file:
                file.write(text)
    _call("mount", b"none", b"/", None, _REC | _SLAVE, None)


def _bind_read_only(path: str) -> None:
    target = os.fsencode(path)
    _call("mount", target, target, None, _BIND | _REC, None)
    found = os.statvfs(path).f_flag
    kept = found & _SAME_FLAGS | (_RELATIME if found & _ST_RELATIME else 0)
    _call("mount", None, target, None, _BIND | _REMOUNT | _RDONLY | kept, None)


def _call(name: str, *arguments: object) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    function = getattr(libc, name)
    function.argtypes = [ctypes.c_ulong if isinstance(each, int) else ctypes.c_char_p for each in arguments]
    if function(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
