"""What keeps the virtual nodes of a rehearsal apart, where the system lets us (Linux namespaces): no network but the
loopback, and for each node a disk of its own under /tmp, where what another node has written is not there.

As root, or in a user namespace where an ordinary user may have one. To be called by a process of one thread; what it
starts inherits it, and everything is gone with the last of them. Standard library only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from worldsize.plan.values import NamedTuple

_NEW_MOUNTS, _NEW_USER, _NEW_NET = 0x00020000, 0x10000000, 0x40000000
_BIND, _RECURSIVE, _PRIVATE = 4096, 16384, 1 << 18
_SET_FLAGS, _UP_AND_RUNNING = 0x8914, 0x41
_PLACES = ("/tmp", "/var/tmp")  # nosec B108  # only compared
_SHARED_MEMORY = "/dev/shm"  # nosec B108  # a mount point
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo", "TP_SOCKET_IFNAME": "lo"}
"""Where only the loopback is left, libraries that go by the host's name would complain first."""


class Isolated(NamedTuple):
    """Why the network could not be cut, or the disks not be kept apart; "" where they are, None where nobody asked."""

    network: str | None = None
    disks: str | None = None


def possible(offline: bool, disks: bool, root: str) -> Isolated:
    """What this system lets us do, tried by processes of their own."""
    return Isolated(
        _tried(cut_network) if offline else None,
        _tried(lambda: own_disks(root, root, ())) if disks else None,
    )


def cut_network() -> None:
    """This process and what it starts reach themselves and each other, and nothing else. OSError."""
    _separate(_NEW_NET)
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door:
        fcntl.ioctl(door, _SET_FLAGS, struct.pack("16sh14s", b"lo", _UP_AND_RUNNING, b""))


def own_disks(base: str, root: str, shared: Sequence[str], environ: Mapping[str, str] = os.environ) -> None:
    """What is written to the temporary directories from now on is this node's alone; what is there already is seen.
    Shared memory (/dev/shm) is the node's own too, and empty.

    base    an empty directory, for the node's own memory
    root    the run directory, which stays what it is wherever it lies, as do the paths `shared`

    OSError; then nothing has changed, or the process is of no use.
    """
    places = _places(environ)
    _separate(_NEW_MOUNTS)
    _mount("none", "/", "", _RECURSIVE | _PRIVATE)
    kept = [(path, os.open(path, os.O_PATH)) for path in (root, *shared) if os.path.isdir(path)]
    _mount("tmpfs", base, "tmpfs", 0, "mode=700")
    memory = os.open(base, os.O_PATH)  # by its path it may soon be hidden
    for number, place in enumerate(places):
        upper, work = ("/proc/self/fd/%d/%s-%d" % (memory, name, number) for name in ("upper", "work"))
        os.mkdir(upper)
        os.mkdir(work)
        os.chmod(upper, os.stat(place).st_mode & 0o7777)
        options = "lowerdir=%s,upperdir=%s,workdir=%s" % (place, upper, work)
        _mount("overlay", place, "overlay", 0, options if os.geteuid() == 0 else options + ",userxattr")
    if os.path.isdir(_SHARED_MEMORY):  # where two nodes of one machine would meet under one name
        _mount("tmpfs", _SHARED_MEMORY, "tmpfs", 0, "mode=1777")
    for path, seen in kept:
        if any(_inside(path, place) for place in places):
            _mount("/proc/self/fd/%d" % seen, path, "", _BIND | _RECURSIVE)
        os.close(seen)
    os.close(memory)


def _places(environ: Mapping[str, str]) -> list[str]:
    """The temporary directories, none inside another."""
    found: list[str] = []
    for place in (*_PLACES, environ.get("TMPDIR", "")):
        real = os.path.realpath(place) if place else ""
        plain = os.path.isdir(real) and "," not in real and ":" not in real and real != "/"
        if plain and not any(_inside(real, other) for other in found):
            found.append(real)
    return found


def _inside(path: str, place: str) -> bool:
    return os.path.commonpath((os.path.realpath(path), place)) == place


def _tried(function: Callable[[], None]) -> str:
    """What stands in the way of it; "" for nothing."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            function()
        except OSError as error:
            os.write(writing, (error.strerror or str(error)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as said:
        text = said.read().decode(errors="replace")
    os.waitpid(pid, 0)
    return text


def _separate(flags: int) -> None:
    user, group = os.geteuid(), os.getegid()
    try:
        _call("unshare", flags)
    except PermissionError:
        _call("unshare", flags | _NEW_USER)
        maps = {"setgroups": "deny", "uid_map": "%d %d 1" % (user, user), "gid_map": "%d %d 1" % (group, group)}
        for name, text in maps.items():
            with open("/proc/self/" + name, "w") as file:
                file.write(text)


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    _call("mount", os.fsencode(source), os.fsencode(target), os.fsencode(kind), flags, os.fsencode(options))


def _call(name: str, *arguments: object) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    function = getattr(libc, name, None)
    if function is None:
        raise OSError(38, "no %s on this system" % name)
    function.argtypes = [ctypes.c_ulong if isinstance(each, int) else ctypes.c_char_p for each in arguments]
    if function(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (name, os.strerror(number)))
