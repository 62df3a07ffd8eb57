"""Mounts in namespaces of our own (Linux), as root, or in a user namespace where an ordinary user may have one.

Sources and targets are descriptors. If they were paths, another user who can write to a directory on the way could
exchange it for a link, between two calls or within one, and the mount would cover what that link leads to.
Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Callable

NEW_MOUNTS, NEW_NAME, NEW_USER, NEW_NET = 0x00020000, 0x04000000, 0x10000000, 0x40000000
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE, SLAVE, RELATIME = 1, 32, 4096, 16384, 1 << 18, 1 << 19, 1 << 21
NO_ACCESS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC
"""Only a place, whatever it is."""


def unshare_namespaces(flags: int) -> None:
    """New namespaces for this process, which has one thread. Raises OSError."""
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
    """What stands in the way of a function that mounts, tried by a process of its own; "" for nothing."""
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
    """What is mounted from now on is seen in this namespace alone; `how`: PRIVATE, or SLAVE, which sees what comes."""
    mount("none", "/", "", RECURSIVE | how)


class OpenPath:
    """A directory or file, as it was found once; of this process's present mounts. To be closed."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    @property
    def name(self) -> str:
        """Leads to it whatever has become of its path."""
        return f"/proc/self/fd/{self.fd}"

    @property
    def path(self) -> str:
        """Where it is now, without links."""
        return os.readlink(self.name)

    def close(self) -> None:
        os.close(self.fd)


def open_path(path: str) -> OpenPath:
    """What `path` leads to. Raises OSError."""
    return OpenPath(os.open(path, NO_ACCESS))


def bind(source: OpenPath, target: OpenPath) -> None:
    """`target` shows `source`, with what is mounted in it. Raises OSError."""
    mount(source.name, target.name, "", BIND | RECURSIVE)


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """mount(2). Raises OSError."""
    call_kernel("mount", os.fsencode(source), os.fsencode(target), os.fsencode(kind), flags, os.fsencode(options))


def call_kernel(name: str, *arguments: object) -> None:
    """The C library's function of that name; of numbers and bytes. Raises OSError."""
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    function = getattr(libc, name, None)
    if function is None:
        raise OSError(38, f"no {name} on this system")
    function.argtypes = [ctypes.c_ulong if isinstance(each, int) else ctypes.c_char_p for each in arguments]
    if function(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
