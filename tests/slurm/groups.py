"""Control groups of nodes. Only the standard library: nodes load it.

The group of a cluster has one group for each node, which sees it as the whole hierarchy. They tell Slurm which
processes are a job's, and limit nothing: the hierarchy is that of version 2, without its controllers, where the machine
has it alone, else that of the freezer in version 1 (for version 2, Slurm refuses a machine that has both).
"""

from __future__ import annotations

import os
from typing import NamedTuple

try:
    from slurm import kernel
except ImportError:  # on a node, where this folder alone is known
    import kernel  # type: ignore[no-redef]

FOLDER = "/sys/fs/cgroup"
FREEZER = "freezer"
PROCESSES = "cgroup.procs"


class Hierarchy(NamedTuple):
    """Version 1 (that of the freezer) or 2, and the folder of the group in it that this process is in."""

    version: int
    folder: str


def hierarchy(groups: str, mounts: str) -> Hierarchy | None:
    """That which nodes get groups in, from /proc/self/cgroup and /proc/self/mountinfo; None if there is none."""
    own = {name: path for _, name, path in (line.split(":", 2) for line in groups.splitlines())}
    version = 2 if set(own) == {""} else 1
    name, kind = ("", "cgroup2") if version == 2 else (FREEZER, "cgroup")
    for line in mounts.splitlines() if name in own else ():
        first, _, second = line.partition(" - ")
        inner, point = first.split()[3:5]
        if second.split()[0] == kind and (version == 2 or FREEZER in second.split()[2].split(",")):
            return Hierarchy(version, os.path.normpath(point + "/" + os.path.relpath(own[name], inner)))
    return None


def here() -> Hierarchy | None:
    """The hierarchy in which this process may make groups for nodes; None if there is none."""
    texts = []
    for name in ("cgroup", "mountinfo"):
        with open("/proc/self/" + name, encoding="utf-8") as file:
            texts.append(file.read())
    found = hierarchy(*texts)
    if found is None or not os.path.exists("/proc/self/ns/cgroup"):
        return None
    probe = os.path.join(found.folder, "worldsize-slurm-probe-%d" % os.getpid())
    try:
        os.mkdir(probe)
    except OSError:
        return None
    allowed = os.access(os.path.join(probe, PROCESSES), os.W_OK)
    os.rmdir(probe)
    return found if allowed else None


def take(folder: str) -> None:
    """Put this process into a new group, and see that as the whole hierarchy."""
    remove(folder)
    os.makedirs(folder)
    with open(os.path.join(folder, PROCESSES), "w", encoding="ascii") as file:
        file.write("0")
    kernel.unshare(kernel.CLONE_NEWCGROUP)


def show(version: int) -> None:
    """Mount the hierarchy as this process sees it, and no other, where a sysfs has been mounted."""
    if version == 2:
        kernel.mount("cgroup2", FOLDER, "cgroup2")
        return
    kernel.mount("tmpfs", FOLDER, "tmpfs", options="mode=755")
    path = os.path.join(FOLDER, FREEZER)
    os.mkdir(path)
    kernel.mount("cgroup", path, "cgroup", options=FREEZER)


def remove(folder: str) -> None:
    """Remove a group and those in it, as far as no process is left in them; nothing where there is none."""
    for path, _, _ in os.walk(folder, topdown=False):
        try:
            os.rmdir(path)
        except OSError:
            pass
