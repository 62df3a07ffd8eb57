"""NVIDIA's Xids in the kernel's log, where this user may read it.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
import time

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.checks.agent.node_context import NodeContext

_RECORD = re.compile(r"\d+,\d+,(\d{1,18}),[^;]*;.*?NVRM: Xid \(PCI:([0-9A-Fa-f:.]{4,20})\): (\d{1,4})\b")
_MOST_RECORDS = 100_000
_MOST_XIDS = 1000


class Xid(NamedTuple):
    """An error of a GPU: its number, the GPU's PCI address as the kernel writes it, and seconds since then."""

    number: int
    bus: str
    age: float


def read_xids(context: NodeContext, uptime: float | None = None) -> list[Xid] | None:
    """The Xids since the node was booted, as far as the kernel still has them; None where they cannot be read.

    The machine's uptime is the system's clock: in containers /proc/uptime may be that of the container (lxcfs).
    """
    text = _records(context.path("dev", "kmsg"))
    return None if text is None else parse_xids(text, time.monotonic() if uptime is None else uptime)


def parse_xids(text: str, uptime: float) -> list[Xid]:
    """The Xids in records of /dev/kmsg, whose times are microseconds since the node was booted."""
    found = [_RECORD.match(line) for line in text.splitlines() if "NVRM: Xid" in line]
    xids = [Xid(int(each[3]), each[2], max(0.0, uptime - int(each[1]) / 1e6)) for each in found if each]
    return xids[-_MOST_XIDS:]


def is_same_device(bus: str, other: str) -> bool:
    """Whether two PCI addresses mean one device: "0000:5f:00" of the kernel, "00000000:5F:00.0" of nvidia-smi."""
    return _short_address(bus) == _short_address(other)


def _short_address(bus: str) -> str:
    parts = bus.lower().partition(".")[0].split(":")
    return ":".join([parts[0].lstrip("0"), *parts[1:]])


def _records(path: str) -> str | None:
    """The records that the kernel has of NVIDIA's driver, one a line; None where this user may not read them."""
    found: list[bytes] = []
    try:
        file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0)
    except OSError:
        return None
    with file:
        for _ in range(_MOST_RECORDS):
            try:
                part = file.read(8192)
            except BrokenPipeError:  # the kernel has overwritten the next record: the one after it comes with the next
                continue
            except OSError:  # no record can be read
                break
            if not part:  # each read gives one record, and None after the last
                break
            found += [part] if b"NVRM" in part else []
    return b"".join(found).decode("utf-8", "replace")
