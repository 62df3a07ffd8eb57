"""The CPUs and the memory of a node that its ranks may use, and the check whether it numbers processes as the kernel
does.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import math
import os

from worldsize.agent.machine.control_groups import memory_limit
from worldsize.agent.machine.cores import read_cores
from worldsize.agent.machine.node_files import text_of
from worldsize.common.numbers import parse_digits

_FIRST_NAMESPACE = 0xEFFFFFFC
"""The inode number of the kernel's first pid namespace: PROC_PID_INIT_INO of Linux, include/linux/proc_ns.h."""


def has_kernels_pids(root: str = "/") -> bool:
    """Return whether this process sees the pids that drivers use: it is not in a container with its own numbering of
    processes."""
    try:
        return os.stat(os.path.join(root, "proc/self/ns/pid")).st_ino == _FIRST_NAMESPACE
    except OSError:
        return False


def usable_cores(root: str = "/") -> int:
    """Return the number of CPUs that this process may use, by its affinity and its control groups, rounded up to a
    whole number and at least 1."""
    return max(1, math.ceil(read_cores(root).usable))


def usable_memory(root: str = "/") -> int | None:
    """Return the bytes of memory that the control groups allow, and at most the memory of the machine; None if neither
    is known."""
    known = [size for size in (memory_limit(root), machine_memory(root)) if size is not None]
    return min(known, default=None)


def machine_memory(root: str) -> int | None:
    """Return the memory of the machine in bytes, from a line like `MemTotal:  131072000 kB`; None if it is not
    known."""
    for line in text_of(os.path.join(root, "proc/meminfo"), 1 << 16).split("\n"):
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            kilobytes = parse_digits((rest.split() or [""])[0])
            return None if kilobytes is None else kilobytes << 10
    return None
