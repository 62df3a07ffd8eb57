"""The cores of the machine, and those that this process may use.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re

from worldsize.agent.machine.control_groups import cpu_quota
from worldsize.agent.machine.node_files import text_of
from worldsize.common.named_tuple import NamedTuple


class Cores(NamedTuple):
    """The numbers of cores of a machine and of a process.

    allowed  how many the scheduler lets the process run on
    online   how many the machine has; 0 if that is not known
    quota    the number of cores whose full time a control group grants; None for no limit
    """

    allowed: int
    online: int = 0
    quota: float | None = None

    @property
    def usable(self) -> float:
        """The number of cores whose full time the process can get."""
        return self.allowed if self.quota is None else min(self.allowed, self.quota)


def read_cores(root: str = "/") -> Cores:
    """Return the numbers of cores that this process may run on, that the machine has, and that a control group grants,
    as Cores. The ranks inherit all of them."""
    return Cores(allowed_cores(), online_cores(root), cpu_quota(root))


def allowed_cores() -> int:
    """Return how many cores the scheduler lets this process run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def online_cores(root: str = "/") -> int:
    """Return the number of processors of the machine that are online, including those that this process may not use; 0
    if it is not known. The kernel lists them as `0-63,128-191`."""
    listed = text_of(os.path.join(root, "sys/devices/system/cpu/online"))
    spans = [re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part) for part in listed.split(",")]
    count = sum(int(span[2] or span[1]) - int(span[1]) + 1 for span in spans if span)
    if count > 0 and all(spans):
        return count
    return len(re.findall(r"(?m)^processor\s*:", text_of(os.path.join(root, "proc/cpuinfo"))))
