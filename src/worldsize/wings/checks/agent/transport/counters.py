"""How many bytes the adapters of the fabric have sent, by their own count.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

_WORD = 4
"""`port_xmit_data` counts words of four bytes (Linux, Documentation/ABI/stable/sysfs-class-infiniband)."""
_LONGEST = 20
"""Digits of the greatest number that the kernel counts to."""
_MOST_PORTS = 256


def read_sent_bytes(root: str) -> dict[str, int]:
    """Bytes that each port has sent, by names like "mlx5_0:1", of the machine whose `/` is `root`. A port that does not
    count (EFA's do not, nor do virtual functions everywhere) is missing."""
    devices = os.path.join(root, "sys", "class", "infiniband")
    sent: dict[str, int] = {}
    for device in _names(devices):
        for port in _names(os.path.join(devices, device, "ports")):
            count = _number(os.path.join(devices, device, "ports", port, "counters", "port_xmit_data"))
            if count is not None and len(sent) < _MOST_PORTS:
                sent[f"{device}:{port}"] = count * _WORD
    return sent


def sent_between(before: Mapping[str, object], after: Mapping[str, object]) -> int | None:
    """Bytes that all ports together sent between two readings; None where there is no port in both. A counter that
    went back (it wrapped, or somebody has reset it) makes it None, too."""
    total, ports = 0, 0
    for port, end in after.items():
        start = before.get(port)
        if not isinstance(start, int) or not isinstance(end, int):
            continue
        if end < start:
            return None
        total, ports = total + end - start, ports + 1
    return total if ports else None


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))[:_MOST_PORTS]
    except OSError:  # no adapters, or not for this user: there is nothing to count
        return []


def _number(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            return int(file.read(_LONGEST + 1))
    except (OSError, ValueError):  # a port without this counter, or one that the driver refuses to read
        return None
