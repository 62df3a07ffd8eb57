"""Control groups of nodes. Only the standard library: nodes load it.

The group of a cluster has one group for each node, which sees it as the whole hierarchy. They tell Slurm which
processes are a job's, and limit nothing: the hierarchy is that of version 2, without its controllers, where the machine
has it alone, else that of the freezer in version 1 (for version 2, Slurm refuses a machine that has both). Where a
cluster wants memory to be limited, nodes get groups in version 1's hierarchy of memory, too.
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
MEMORY = "memory"
PROCESSES = "cgroup.procs"


class Hierarchy(NamedTuple):
    """Version 1 (that of one controller) or 2, and the folder of the group in it that this process is in."""

    version: int
    folder: str


def hierarchy(groups: str, mounts: str, controller: str = FREEZER) -> Hierarchy | None:
    """That which nodes get groups in, from /proc/self/cgroup and /proc/self/mountinfo: in version 1 the controller's;
    None if there is none."""
    own = {name: path for _, name, path in (line.split(":", 2) for line in groups.splitlines())}
    version = 2 if set(own) == {""} else 1
    name, kind = ("", "cgroup2") if version == 2 else (controller, "cgroup")
    for line in mounts.splitlines() if name in own else ():
        first, _, second = line.partition(" - ")
        inner, point = first.split()[3:5]
        if second.split()[0] == kind and (version == 2 or controller in second.split()[2].split(",")):
            return Hierarchy(version, os.path.normpath(point + "/" + os.path.relpath(own[name], inner)))
    return None


def here(controller: str = FREEZER) -> Hierarchy | None:
    """The hierarchy in which this process may make groups for nodes; None if there is none. Version 2 has none that
    limits memory: its controllers are not taken from others."""
    texts = []
    for name in ("cgroup", "mountinfo"):
        with open("/proc/self/" + name, encoding="utf-8") as file:
            texts.append(file.read())
    found = hierarchy(*texts, controller)
    if found is None or not os.path.exists("/proc/self/ns/cgroup") or (found.version == 2 and controller == MEMORY):
        return None
    probe = os.path.join(found.folder, "worldsize-slurm-probe-%d" % os.getpid())
    try:
        os.mkdir(probe)
    except OSError:
        return None
    allowed = os.access(os.path.join(probe, PROCESSES), os.W_OK)
    os.rmdir(probe)
    return found if allowed else None


def take(*folders: str) -> None:
    """Put this process into new groups, one of each hierarchy, and see them as the whole hierarchies."""
    for folder in folders:
        remove(folder)
        os.makedirs(folder)
        with open(os.path.join(folder, PROCESSES), "w", encoding="ascii") as file:
            file.write("0")
    kernel.unshare(kernel.CLONE_NEWCGROUP)


def show(version: int, *controllers: str) -> None:
    """Mount the hierarchy as this process sees it, of version 1 those of these controllers, and no other, where a sysfs
    has been mounted."""
    if version == 2:
        kernel.mount("cgroup2", FOLDER, "cgroup2")
        return
    kernel.mount("tmpfs", FOLDER, "tmpfs", options="mode=755")
    for controller in controllers:
        path = os.path.join(FOLDER, controller)
        os.mkdir(path)
        kernel.mount("cgroup", path, "cgroup", options=controller)


def remove(folder: str) -> None:
    """Remove a group and those in it, as far as no process is left in them; nothing where there is none."""
    for path, _, _ in os.walk(folder, topdown=False):
        try:
            os.rmdir(path)
        except OSError:
            pass
