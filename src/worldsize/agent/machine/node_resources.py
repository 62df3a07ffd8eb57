"""What a node has, of which its ranks may use a part: CPUs and memory; and how it numbers processes.

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
"""PROC_PID_INIT_INO of Linux, include/linux/proc_ns.h."""


def has_kernels_pids(root: str = "/") -> bool:
    """Return whether this process knows processes by the numbers that drivers know them by: it is in no container that
    numbers them itself."""
    try:
        return os.stat(os.path.join(root, "proc/self/ns/pid")).st_ino == _FIRST_NAMESPACE
    except OSError:
        return False


def usable_cores(root: str = "/") -> int:
    """Return the CPUs that this process may use, by its affinity and its control groups; a part of one counts as
    one."""
    return max(1, math.ceil(read_cores(root).usable))


def usable_memory(root: str = "/") -> int | None:
    """Bytes: what the control groups allow, and at most what the machine has; None where neither is known."""
    known = [size for size in (memory_limit(root), machine_memory(root)) if size is not None]
    return min(known, default=None)


def machine_memory(root: str) -> int | None:
    """Return all that the machine has, in bytes, by a line like `MemTotal:  131072000 kB`."""
    for line in text_of(os.path.join(root, "proc/meminfo"), 1 << 16).split("\n"):
        name, _, rest = line.partition(":")
        if name == "MemTotal":
            kilobytes = parse_digits((rest.split() or [""])[0])
            return None if kilobytes is None else kilobytes << 10
    return None
