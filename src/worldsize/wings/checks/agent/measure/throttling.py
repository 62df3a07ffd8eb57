"""The time for which control groups have kept this process from running, by their own counters.

Both versions of control groups have `cpu.stat` (kernel documentation: Documentation/scheduler/sched-bwc.rst and
Documentation/admin-guide/cgroup-v2.rst). The effective limit may be that of any group above. Standard library only:
travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os

from worldsize.common.atomic_files import read_if_possible

MAX_BYTES = 1 << 20
_PROC = "proc/self"
_UNITS = {"throttled_usec": 1e-6, "throttled_time": 1e-9}


def throttled_seconds(files: list[str]) -> float:
    """Return the longest time, in seconds, for which one of the control groups with the `cpu.stat` files `files` was
    throttled since it was created, added over its CPUs; 0.0 if none reports it."""
    return max(map(_throttled_by, files), default=0.0)


def statistics_files(root: str = "/") -> list[str]:
    """Return the paths of `cpu.stat` of the control groups that this process is in, and of all groups that contain
    them."""
    groups = _groups(_text(root, f"{_PROC}/cgroup"))
    files = []
    for line in _text(root, f"{_PROC}/mountinfo").splitlines():
        mount = _cpu_mount(line)
        if mount is not None and mount[0] in groups:
            files += _files_upwards(os.path.join(root, mount[1].lstrip("/")), mount[2], groups[mount[0]])
    return files


def _text(root: str, name: str) -> str:
    return read_if_possible(os.path.join(root, name), MAX_BYTES).decode("utf-8", "replace")


def _groups(text: str) -> dict[str, str]:
    """Return the control group that limits this process's CPU time, by the version of control groups, "cgroup2" or
    "cgroup", from the `text` of /proc/self/cgroup."""
    found = {}
    for line in text.splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            found["cgroup2"] = path
        elif "cpu" in controllers.split(","):
            found["cgroup"] = path
    return found


def _cpu_mount(line: str) -> tuple[str, str, str] | None:
    """Return the version, the directory and the root group of the control groups that a line of mountinfo describes;
    None if the mount does not count CPU time."""
    before, _, after = line.partition(" - ")
    fields, kind = before.split(), after.split()
    if len(fields) < 5 or len(kind) < 3:
        return None
    if kind[0] == "cgroup2" or (kind[0] == "cgroup" and "cpu" in kind[2].split(",")):
        return kind[0], fields[4], fields[3]
    return None


def _files_upwards(directory: str, mounted: str, group: str) -> list[str]:
    """Return the paths of `cpu.stat` of the control group `group` and of the groups that contain it, up to `mounted`,
    which is mounted at `directory`. For a group outside of `mounted`, as in some containers, return only that of
    `mounted`."""
    below = os.path.relpath(group, mounted) if group.startswith("/") and mounted.startswith("/") else ".."
    names = [] if below == "." or below.startswith("..") else below.split("/")
    return [os.path.join(directory, *names[:count], "cpu.stat") for count in range(len(names), -1, -1)]


def _throttled_by(path: str) -> float:
    for line in read_if_possible(path, MAX_BYTES).decode("ascii", "replace").splitlines():
        name, _, number = line.partition(" ")
        if name in _UNITS and number.strip().isdigit():
            return int(number[:18]) * _UNITS[name]
    return 0.0
