"""What the process's control groups allow, version 1 and 2: processor time, and how many processes.

A limit of a group holds for all groups in it, so all from the process's own up to the root are read. In a container
the own group's path may be one of the host that is not visible inside; then the mounted root is the container's group.
Kernel: Documentation/admin-guide/cgroup-v2.rst, and cgroup-v1/cgroups.rst, sched-bwc.rst, pids.rst beside it.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from worldsize.common.atomic_files import read_if_possible
from worldsize.common.numbers import parse_digits
from worldsize.wings.checks.agent.readers.mount_table import Mount, read_mounts

_DEEPEST = 64


def cpu_quota(root: str = "/") -> float | None:
    """How many processors' time the process may use, by the tightest of its groups; None for no limit."""
    found = [_quota_v2(directory) for directory in _directories(root, "cpu", 2)]
    found += [_quota_v1(directory) for directory in _directories(root, "cpu", 1)]
    limits = [quota for quota in found if quota is not None]
    return min(limits) if limits else None


def processes_left(root: str = "/") -> int | None:
    """How many processes and threads may still be started, by the tightest of its groups; None for no limit."""
    directories = [*_directories(root, "pids", 2), *_directories(root, "pids", 1)]
    found = [_pids_left(directory) for directory in directories]
    limits = [left for left in found if left is not None]
    return min(limits) if limits else None


def _directories(root: str, controller: str, version: int) -> Iterator[str]:
    """The directories of the process's groups with this controller, its own first."""
    for mount in read_mounts(root):
        if mount.kind == ("cgroup2" if version == 2 else "cgroup") and (version == 2 or controller in mount.options):
            path = _own_group(root, "" if version == 2 else controller)
            if path is not None:
                yield from _upwards(os.path.join(root, mount.point.lstrip("/")), _below(mount, path))
            return


def _own_group(root: str, controller: str) -> str | None:
    """The path in a line of /proc/self/cgroup: `4:cpu,cpuacct:/a/b`; version 2 has `0::/a/b`."""
    text = read_if_possible(os.path.join(root, "proc/self/cgroup"), 1 << 16).decode("utf-8", "surrogateescape")
    for line in text.split("\n"):
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon and (controller in controllers.split(",") if controller else number == "0" and not controllers):
            return path
    return None


def _below(mount: Mount, path: str) -> Sequence[str]:
    """The group's path below the mount, as names; none where it lies outside, as a container may see it."""
    top = mount.root.rstrip("/")
    if path != top and not path.startswith(top + "/"):
        return ()
    names = [name for name in path[len(top) :].split("/") if name]
    return () if ".." in names else names[:_DEEPEST]


def _upwards(top: str, names: Sequence[str]) -> Iterator[str]:
    for count in range(len(names), -1, -1):
        yield os.path.join(top, *names[:count])


def _quota_v2(directory: str) -> float | None:
    """`cpu.max` holds `200000 100000`, or `max 100000`."""
    words = _words(directory, "cpu.max")
    return _share(words[0], words[1]) if len(words) == 2 else None


def _quota_v1(directory: str) -> float | None:
    quota, period = _words(directory, "cpu.cfs_quota_us"), _words(directory, "cpu.cfs_period_us")
    return _share(quota[0], period[0]) if quota and period else None


def _share(quota: str, period: str) -> float | None:
    """The quota in processors; None where it is `max`, or -1."""
    allowed, of = parse_digits(quota), parse_digits(period)
    return allowed / of if allowed and of else None


def _pids_left(directory: str) -> int | None:
    most, now = _words(directory, "pids.max"), _words(directory, "pids.current")
    limit, count = parse_digits(most[0] if most else None), parse_digits(now[0] if now else None)
    return None if limit is None else max(0, limit - (count or 0))


def _words(directory: str, name: str) -> list[str]:
    return read_if_possible(os.path.join(directory, name), 4096).decode("ascii", "replace").split()
