"""A node's own view of the machine: its host name, the names of its neighbours, the share under another path.

A private mount and UTS namespace, made as root or inside a user namespace. The root is a small file system in memory
that shows every entry of the machine's / where it is, and the share beside them. By its path on the machine the share
is not to be seen, so that a path that nobody mapped fails as it would on a cluster. Nothing of the machine is changed,
and everything is gone with the last process of the node. Standard library only; runs in a process of one thread.
"""

from __future__ import annotations

import ctypes
import os
import socket
import stat
from collections.abc import Mapping

_NEW_MOUNTS, _NEW_NAME, _NEW_USER = 0x00020000, 0x04000000, 0x10000000
_BIND, _RECURSIVE, _UNBINDABLE, _PRIVATE = 4096, 16384, 1 << 17, 1 << 18
_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def enter_node(
    name: str, root: str, share: str, at: str, hosts: Mapping[str, str], mounted: bool, hidden: bool
) -> None:
    """This process and its children live on the node from now on; `/` is `root`, an empty directory until now.

    `at` is where the share is seen, one level below /; an empty directory where it is not `mounted`.
    OSError: this kernel or its administrator allows no namespaces; nothing has changed, or the process is of no use.
    """
    _enter_namespaces()
    _mount("none", "/", "", _RECURSIVE | _PRIVATE)
    seen = os.open(share, os.O_PATH)
    _mount("tmpfs", root, "tmpfs", 0, "size=16m,mode=755")
    _mount("none", root, "", _UNBINDABLE)  # else the copy of / below would hold a copy of itself
    for entry in os.listdir("/"):
        if entry != at.strip("/"):
            _bind_entry("/" + entry, root + "/" + entry)
    _mount("none", root, "", _PRIVATE)
    os.mkdir(root + at)
    if mounted:
        _mount(f"/proc/self/fd/{seen}", root + at, "", _BIND | _RECURSIVE)
    os.close(seen)
    if hidden:
        _mount("tmpfs", root + os.path.realpath(share), "tmpfs", 0, "size=4k,mode=755")
    _write_over(root, "hosts", _hosts_text(hosts))
    _write_over(root, "hostname", name + "\n")
    _change_root(root)
    socket.sethostname(name)


def _change_root(root: str) -> None:
    """`root` is /, and what was there before is gone."""
    os.chdir(root)
    try:
        _check(_libc.pivot_root(b".", b"."), "pivot_root")
    except AttributeError as error:
        raise OSError(38, str(error)) from None
    _check(_libc.umount2(b".", _DETACH), "umount")
    os.chdir("/")


def _enter_namespaces() -> None:
    try:
        _unshare(_NEW_MOUNTS | _NEW_NAME)
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        _unshare(_NEW_USER | _NEW_MOUNTS | _NEW_NAME)
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for file, text in maps.items():
            with open("/proc/self/" + file, "w") as proc:
                proc.write(text)


def _bind_entry(source: str, target: str) -> None:
    """An entry of the machine's / at the same place of the node's; what cannot be shown is left out."""
    mode = os.lstat(source).st_mode
    if stat.S_ISLNK(mode):
        os.symlink(os.readlink(source), target)
        return
    if stat.S_ISDIR(mode):
        os.mkdir(target)
    elif stat.S_ISREG(mode):
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    else:
        return
    _mount(source, target, "", _BIND | _RECURSIVE)


def _write_over(root: str, name: str, text: str) -> None:
    """Other words in place of a file of /etc, where there is such a file."""
    path = root + "/etc/" + name
    if os.path.isfile(path):
        words = root + "/." + name
        with open(words, "w", encoding="ascii") as file:
            file.write(text)
        _mount(words, os.path.realpath(path), "", _BIND)
        os.unlink(words)


def _hosts_text(hosts: Mapping[str, str]) -> str:
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost", *(f"{hosts[each]} {each}" for each in hosts)]
    return "\n".join(lines) + "\n"


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    answer = _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode())
    _check(answer, f"mount on {target}")


def _unshare(flags: int) -> None:
    _check(_libc.unshare(flags), "unshare")


def _check(answer: int, what: str) -> None:
    if answer:
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)} ({what})")
