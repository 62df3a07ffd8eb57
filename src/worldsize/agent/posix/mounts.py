"""Mounts in the process's own namespaces (Linux), as root, or in a user namespace if an ordinary user may have one.

Sources and targets are descriptors. If they were paths, another user who can write to a directory on the path could
replace it with a link, between two calls or within one, and the mount would cover the link's target.

Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Callable

NEW_MOUNTS, NEW_NAME, NEW_USER, NEW_NET = 0x00020000, 0x04000000, 0x10000000, 0x40000000
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE, SLAVE, RELATIME = 1, 32, 4096, 16384, 1 << 18, 1 << 19, 1 << 21
NO_ACCESS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC
"""Flags for opening a path of any kind without access to its contents."""


def unshare_namespaces(flags: int) -> None:
    """Move this process, which has one thread, into new kernel namespaces of the kinds `flags`, such as NEW_MOUNTS.
    Without the permission to do so, use a new user namespace too. Raise OSError."""
    user, group = os.geteuid(), os.getegid()
    try:
        call_kernel("unshare", flags)
    except PermissionError:
        call_kernel("unshare", flags | NEW_USER)
        maps = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
        for name, text in maps.items():
            with open("/proc/self/" + name, "w") as file:
                file.write(text)


def find_obstacle(function: Callable[[], None]) -> str:
    """Test whether mounts are possible: call `function`, which mounts, in a forked child process. Return the message of
    the OSError that it raises; "" if it raises none."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            function()
        except OSError as error:
            os.write(writing, (error.strerror or str(error)).encode(errors="surrogateescape")[:4000])
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as said:
        text = said.read().decode(errors="replace")
    os.waitpid(pid, 0)
    return text


def detach_mounts(how: int) -> None:
    """Change how mounts propagate, so that mounts that are made in this process's mount namespace from now on are
    visible only there. `how` is PRIVATE, or SLAVE, with which mounts that are made outside still appear here."""
    mount("none", "/", "", RECURSIVE | how)


class OpenPath:
    """An open directory or file. It stays the one that was found when it was opened, among this process's mounts at
    that time. The caller must close it."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @property
    def name(self) -> str:
        """A path that leads to the opened file, even if its original path has changed."""
        return f"/proc/self/fd/{self.fd}"

    @property
    def path(self) -> str:
        """The present path of the opened file, without links."""
        return os.readlink(self.name)

    def close(self) -> None:
        os.close(self.fd)


def open_path(path: str) -> OpenPath:
    """Open the directory or file that `path` leads to. Raise OSError."""
    return OpenPath(os.open(path, NO_ACCESS))


def bind(source: OpenPath, target: OpenPath) -> None:
    """Mount the directory or file `source` also at `target` (a bind mount), together with the mounts in it. Raise
    OSError."""
    mount(source.name, target.name, "", BIND | RECURSIVE)


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Call the system call mount(2) with these arguments; `kind` is the file system's type. Raise OSError."""
    call_kernel("mount", os.fsencode(source), os.fsencode(target), os.fsencode(kind), flags, os.fsencode(options))


def call_kernel(name: str, *arguments: object) -> None:
    """Call the C library's function of this name with numbers and bytes as arguments. Raise OSError if there is no such
    function, or if it fails."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    function = getattr(libc, name, None)
    if function is None:
        raise OSError(38, f"no {name} on this system")
    function.argtypes = [ctypes.c_ulong if isinstance(each, int) else ctypes.c_char_p for each in arguments]
    if function(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
