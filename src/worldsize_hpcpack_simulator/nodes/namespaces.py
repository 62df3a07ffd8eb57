"""A node's own view of the machine: its host name, the names of its neighbours, the share under another path.

A private mount and UTS namespace, made as root or inside a user namespace. The root is a small file system in memory
that shows every entry of the machine's / where it is, and the share beside them. By its path on the machine the share
is not to be seen, so that a path that nobody mapped fails as it would on a cluster. Nothing of the machine is changed,
and everything is gone with the last process of the node. Standard library only; runs in a process of one thread.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Mapping

from worldsize.agent.posix.mounts import (
    BIND,
    NEW_MOUNTS,
    NEW_NAME,
    PRIVATE,
    RECURSIVE,
    call_kernel,
    mount,
    unshare_namespaces,
)

_UNBINDABLE = 1 << 17
_DETACH = 2


def enter_node(
    name: str, root: str, share: str, at: str, hosts: Mapping[str, str], mounted: bool, hidden: bool
) -> None:
    """This process and its children live on the node from now on; `/` is `root`, an empty directory until now.

    `at` is where the share is seen, one level below /; an empty directory where it is not `mounted`.
    OSError: this kernel or its administrator allows no namespaces; nothing has changed, or the process is of no use.
    """
    unshare_namespaces(NEW_MOUNTS | NEW_NAME)
    mount("none", "/", "", RECURSIVE | PRIVATE)
    seen = os.open(share, os.O_PATH)
    mount("tmpfs", root, "tmpfs", 0, "size=16m,mode=755")
    mount("none", root, "", _UNBINDABLE)  # else the copy of / below would hold a copy of itself
    for entry in os.listdir("/"):
        if entry != at.strip("/"):
            _bind_entry("/" + entry, root + "/" + entry)
    mount("none", root, "", PRIVATE)
    os.mkdir(root + at)
    if mounted:
        mount(f"/proc/self/fd/{seen}", root + at, "", BIND | RECURSIVE)
    os.close(seen)
    if hidden:
        mount("tmpfs", root + os.path.realpath(share), "tmpfs", 0, "size=4k,mode=755")
    _write_over(root, "hosts", _hosts_text(hosts))
    _write_over(root, "hostname", name + "\n")
    _change_root(root)
    socket.sethostname(name)


def _change_root(root: str) -> None:
    """`root` is /, and what was there before is gone."""
    os.chdir(root)
    call_kernel("pivot_root", b".", b".")
    call_kernel("umount2", b".", _DETACH)
    os.chdir("/")


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
    mount(source, target, "", BIND | RECURSIVE)


def _write_over(root: str, name: str, text: str) -> None:
    """Other words in place of a file of /etc, where there is such a file."""
    path = root + "/etc/" + name
    if os.path.isfile(path):
        words = root + "/." + name
        with open(words, "w", encoding="ascii") as file:
            file.write(text)
        mount(words, os.path.realpath(path), "", BIND)
        os.unlink(words)


def _hosts_text(hosts: Mapping[str, str]) -> str:
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost", *(f"{hosts[each]} {each}" for each in hosts)]
    return "\n".join(lines) + "\n"
