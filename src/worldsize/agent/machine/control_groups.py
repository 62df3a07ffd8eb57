"""The limits that control groups, of version 1 and 2, set for this process: processor time, memory, processes.

A limit of a group applies to all groups in it, so all groups from the process's own up to the root are read. In a
container, the path of the own group may be a path of the host that is not visible inside; then the mounted root is the
container's group. Kernel: Documentation/admin-guide/cgroup-v2.rst, and cgroup-v1/cgroups.rst, sched-bwc.rst, pids.rst
in the same directory.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from worldsize.agent.machine.mount_table import Mount, read_mounts
from worldsize.agent.machine.node_files import text_of
from worldsize.common.numbers import parse_digits

_DEEPEST = 64


def cpu_quota(root: str = "/") -> float | None:
    """Return the number of processors whose full time this process may use, by the tightest limit of its control
    groups; None for no limit."""
    limits = map(_quota, _directories(root, "cpu"))
    return min((limit for limit in limits if limit is not None), default=None)


def processes_left(root: str = "/") -> int | None:
    """Return how many processes and threads this process may still start, by the tightest limit of its control groups;
    None for no limit."""
    limits = map(_pids_left, _directories(root, "pids"))
    return min((limit for limit in limits if limit is not None), default=None)


def memory_limit(root: str = "/") -> int | None:
    """Return how many bytes of memory this process may use, by the tightest limit of its control groups; None for no
    limit."""
    limits = map(_memory, _directories(root, "memory"))
    return min((limit for limit in limits if limit is not None), default=None)


def memory_kills(root: str = "/") -> int | None:
    """Return how often the kernel has killed a process of this process's own control group, or of a group in it,
    because memory had run out; None if no group of version 2 counts this."""
    words = next(
        filter(None, (_words(each, "memory.events") for each in reversed([*_directories(root, "memory")]))), []
    )
    return parse_digits(dict(zip(words[::2], words[1::2])).get("oom_kill"))


def memory_group(root: str = "/") -> str | None:
    """Return the path of this process's own control group that accounts for its memory, as the kernel names it; None if
    it has none, or if the group cannot be distinguished from the group of all processes, as in a container."""
    groups = _own_groups(root)
    path = groups.get("memory", groups.get("", "/"))
    return None if path == "/" or ".." in path.split("/") else path


def _directories(root: str, controller: str) -> Iterator[str]:
    """Yield the directories of this process's control groups with this controller, such as "cpu", of both versions,
    from the root of the mount down to the process's own group."""
    mounts, groups = read_mounts(root), _own_groups(root)
    version_1 = (mount for mount in mounts if mount.kind == "cgroup" and controller in mount.options)
    version_2 = (mount for mount in mounts if mount.kind == "cgroup2")
    for mount, path in ((next(version_1, None), groups.get(controller)), (next(version_2, None), groups.get(""))):
        if mount is not None and path is not None:
            names = _below(mount, path)
            for count in range(len(names) + 1):
                yield os.path.join(root, mount.point.lstrip("/"), *names[:count])


def _own_groups(root: str) -> dict[str, str]:
    """Return the paths of this process's control groups in /proc/self/cgroup as a dictionary by controller:
    `4:cpu,cpuacct:/a/b`. The line of version 2 has no controller, so its key is "": `0::/a/b`."""
    found: dict[str, str] = {}
    for line in text_of(os.path.join(root, "proc/self/cgroup")).split("\n"):
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon and (controllers or number == "0"):
            found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _below(mount: Mount, path: str) -> Sequence[str]:
    """Return the control group's `path` below the mount, as a sequence of directory names; none if the path is outside
    the mount, as a container may see it."""
    top = mount.root.rstrip("/")
    if path != top and not path.startswith(top + "/"):
        return ()
    names = [name for name in path[len(top) :].split("/") if name]
    return () if ".." in names else names[:_DEEPEST]


def _quota(directory: str) -> float | None:
    """Return the number of processors whose full time the control group in `directory` may use; None for no limit.
    `cpu.max` contains `200000 100000`, or `max 100000`. Version 1 has a file for each of the two numbers, and -1 for no
    limit."""
    words = _words(directory, "cpu.max") or [
        *_words(directory, "cpu.cfs_quota_us"),
        *_words(directory, "cpu.cfs_period_us"),
    ]
    quota, period = map(parse_digits, words) if len(words) == 2 else (None, None)
    return quota / period if quota and period else None


def _memory(directory: str) -> int | None:
    """Return the bytes of memory that the control group in `directory` may use; None for no limit. `memory.max`
    contains bytes, or `max`. Version 1 has 2^63 less a page for no limit."""
    words = _words(directory, "memory.max") or _words(directory, "memory.limit_in_bytes")
    return parse_digits(words[0]) if len(words) == 1 else None  # numbers too long for parse_digits mean no limit


def _pids_left(directory: str) -> int | None:
    limit, count = (parse_digits("".join(_words(directory, name))) for name in ("pids.max", "pids.current"))
    return None if limit is None else max(0, limit - (count or 0))


def _words(directory: str, name: str) -> list[str]:
    return text_of(os.path.join(directory, name), 4096).split()
