"""The few system calls that Python 3.10 has no name for. Only the standard library: nodes load it by itself."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWCGROUP = 0x02000000
CLONE_NEWNET = 0x40000000
MS_BIND = 4096
MS_REC = 16384
MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def mount(source: str, target: str, kind: str = "none", flags: int = 0, options: str = "") -> None:
    if _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "mount on " + target)


def unmount(target: str) -> None:
    """At once for all to come; nothing where nothing is mounted."""
    _libc.umount2(target.encode(), MNT_DETACH)


def bind(source: str, target: str) -> None:
    mount(source, target, flags=MS_BIND)


def unshare(flags: int) -> None:
    if _libc.unshare(flags):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "unshare")
