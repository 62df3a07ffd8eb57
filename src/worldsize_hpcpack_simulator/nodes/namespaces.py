"""A node's own view of the machine: its host name, the names of its neighbours, and the share under another path.

It uses a private mount and UTS namespace, created as root or inside a user namespace. The root directory is a small
file system in memory. It shows every entry of the machine's / at the same place, and the share next to them. The
share's path on the machine is hidden, so that a path that was not mapped fails as it would on a cluster. Nothing on the
machine is changed, and everything disappears with the last process of the node.

Standard library only; runs in a process with one thread.
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
    """Move this process and its children into a simulated node's view of the machine, with `name` as its host name and
    the addresses `hosts` by name. `root`, an empty directory until now, becomes `/`.

    `at` is the path of the share on the node, one level below /; it is an empty directory if the share is not
    `mounted`. With `hidden`, the share's path on the machine shows an empty directory. Raise OSError if the kernel or
    its administrator permits no namespaces. Then nothing has changed, or the process must not be used any more.
    """
    unshare_namespaces(NEW_MOUNTS | NEW_NAME)
    mount("none", "/", "", RECURSIVE | PRIVATE)
    seen = os.open(share, os.O_PATH)
    mount("tmpfs", root, "tmpfs", 0, "size=16m,mode=755")
    mount("none", root, "", _UNBINDABLE)  # otherwise the copy of / below would contain a copy of itself
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
    """Make `root` the root directory of this process's mount namespace, and detach the former one."""
    os.chdir(root)
    call_kernel("pivot_root", b".", b".")
    call_kernel("umount2", b".", _DETACH)
    os.chdir("/")


def _bind_entry(source: str, target: str) -> None:
    """Show `source`, an entry of the machine's /, as `target`, at the same place of the simulated node's /. Entries of
    other kinds than links, directories and regular files are left out."""
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
    """Mount a file with the content `text` over the file `name` of the node's /etc, if there is such a file. `root` is
    the node's root directory."""
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
