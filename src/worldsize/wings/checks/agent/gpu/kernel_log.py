"""Reader of NVIDIA's Xids in the kernel's log, if this user may read it.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
import time

from worldsize.agent.machine.kernel_messages import read_records
from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.checks.agent.node_context import NodeContext

_RECORD = re.compile(r"\d+,\d+,(\d{1,18}),[^;]*;.*?NVRM: Xid \(PCI:([0-9A-Fa-f:.]{4,20})\): (\d{1,4})\b")
_MOST_XIDS = 1000


class Xid(NamedTuple):
    """An error of a GPU: its number, the GPU's PCI address as the kernel writes it, and the seconds since then."""

    number: int
    bus: str
    age: float


def read_xids(context: NodeContext, uptime: float | None = None) -> list[Xid] | None:
    """Return the Xids (NVIDIA's GPU errors) in the kernel's log since the node was booted, as far as the kernel still
    has them; None if they cannot be read.

    `uptime` is the machine's, by default the system's clock: in containers /proc/uptime may be that of the container
    (lxcfs).
    """
    text = read_records(context.path("dev", "kmsg"), b"NVRM")
    return None if text is None else parse_xids(text, time.monotonic() if uptime is None else uptime)


def parse_xids(text: str, uptime: float) -> list[Xid]:
    """Parse the Xids (NVIDIA's GPU errors) in `text`, records of /dev/kmsg, whose times are microseconds since the node
    was booted. Return at most the last 1000."""
    found = [_RECORD.match(line) for line in text.splitlines() if "NVRM: Xid" in line]
    xids = [Xid(int(each[3]), each[2], max(0.0, uptime - int(each[1]) / 1e6)) for each in found if each]
    return xids[-_MOST_XIDS:]


def is_same_device(bus: str, other: str) -> bool:
    """Return whether two PCI addresses, `bus` and `other`, mean the same device: "0000:5f:00" of the kernel,
    "00000000:5F:00.0" of nvidia-smi."""
    return _short_address(bus) == _short_address(other)


def _short_address(bus: str) -> str:
    parts = bus.lower().partition(".")[0].split(":")
    return ":".join([parts[0].lstrip("0"), *parts[1:]])
