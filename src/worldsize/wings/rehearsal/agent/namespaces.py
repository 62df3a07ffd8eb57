"""Linux namespaces that isolate the virtual nodes of a rehearsal, where the system permits it: no network but the
loopback, and for each node a disk of its own under /tmp, where files written by other nodes are not visible.

Works as root, or in a user namespace if an ordinary user may have one. To be called by a process with one thread. Its
children inherit the namespaces, which disappear with the last of these processes. Standard library only.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence

from worldsize.agent.posix import mounts
from worldsize.agent.posix.network import cut_network
from worldsize.common.named_tuple import NamedTuple

_TEMPORARY_DIRECTORIES = ("/tmp", "/var/tmp")  # nosec B108  # only compared
_SHARED_MEMORY = "/dev/shm"  # nosec B108  # a mount point


class Isolation(NamedTuple):
    """The reasons why the network could not be cut, and why the disks could not be separated: "" if it succeeded, None
    if it was not requested."""

    network: str | None = None
    disks: str | None = None


def probe_isolation(offline: bool, disks: bool, root: str) -> Isolation:
    """Check whether this system permits cutting the network (if `offline`) and separate disks for the nodes (if
    `disks`), with `root` as the directory to mount at. Return the reasons as an Isolation. Child processes try it, so
    that this process does not change."""
    return Isolation(
        mounts.find_obstacle(cut_network) if offline else None,
        mounts.find_obstacle(lambda: mount_own_disks(root, root, ())) if disks else None,
    )


def mount_own_disks(base: str, root: str, shared: Sequence[str], environ: Mapping[str, str] = os.environ) -> None:
    """Mount file systems over the temporary directories of this process, the agent of one virtual node. What the node
    writes there from now on is visible only on this node; files that are there already stay visible. Shared memory
    (/dev/shm) is also the node's own, and empty.

    base    an empty directory, on which the memory for the node's own files is mounted
    root    the run directory, which stays shared wherever it is located, as do the paths `shared`. Each is opened
            once, at the beginning; exchanging it afterwards has no effect

    Raise OSError. Then nothing has changed, or the process must not be used any more.
    """
    places = _temporary_directories(environ)
    mounts.unshare_namespaces(mounts.NEW_MOUNTS)
    mounts.detach_mounts(mounts.PRIVATE)
    kept = [mounts.open_path(path) for path in (root, *shared) if os.path.isdir(path)]
    lying = [place.path for place in kept]
    mounts.mount("tmpfs", base, "tmpfs", 0, "mode=700")
    memory = mounts.open_path(base)  # the mounts below may hide its path
    for number, place in enumerate(places):
        upper, work = (f"{memory.name}/{name}-{number}" for name in ("upper", "work"))
        os.mkdir(upper)
        os.mkdir(work)
        os.chmod(upper, os.stat(place).st_mode & 0o7777)
        options = f"lowerdir={place},upperdir={upper},workdir={work}"
        mounts.mount("overlay", place, "overlay", 0, options if os.geteuid() == 0 else options + ",userxattr")
    if os.path.isdir(_SHARED_MEMORY):  # otherwise two nodes of one machine could use the same name there
        mounts.mount("tmpfs", _SHARED_MEMORY, "tmpfs", 0, "mode=1777")
    for seen, path in zip(kept, lying):
        for place in places:
            if _is_inside(path, place):
                target = _open_below(place, path)
                mounts.bind(seen, target)
                target.close()
        seen.close()
    memory.close()


def _open_below(top: str, path: str) -> mounts.OpenPath:
    """Open and return `path`, which is below the directory `top`, without following links on the way. Raise OSError,
    also if a part of `path` below `top` is a link."""
    place = mounts.open_path(top)
    for name in os.path.relpath(path, top).split(os.sep):
        if name == os.curdir:
            continue
        try:
            following = os.open(name, mounts.NO_ACCESS | os.O_NOFOLLOW, dir_fd=place.fd)
        finally:
            place.close()
        place = mounts.OpenPath(following)
        if stat.S_ISLNK(os.fstat(following).st_mode) or name == os.pardir:
            place.close()
            raise OSError(40, f"{name} is a link")
    return place


def _temporary_directories(environ: Mapping[str, str]) -> list[str]:
    """Return the real paths of the temporary directories that exist: /tmp, /var/tmp and TMPDIR of `environ`. None of
    them is inside another one."""
    found: list[str] = []
    for place in (*_TEMPORARY_DIRECTORIES, environ.get("TMPDIR", "")):
        real = os.path.realpath(place) if place else ""
        plain = os.path.isdir(real) and "," not in real and ":" not in real and real != "/"
        if plain and not any(_is_inside(real, other) for other in found):
            found.append(real)
    return found


def _is_inside(path: str, place: str) -> bool:
    """Return whether `path` is `place` or is below it. Both must be paths without links."""
    return os.path.commonpath((path, place)) == place
