"""The numbers of bytes that the ports that can carry RDMA have moved since the node was booted, from the kernel's
files.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from worldsize.agent.machine.node_files import names_in, text_of
from worldsize.common.numbers import parse_digits

RECEIVED, SENT = "port_rcv_data", "port_xmit_data"
_WORD = 4
_COUNT = re.compile(r"[0-9]{1,20}")
_MOST = 256


def fabric_directory(root: str, device: str) -> str:
    """Return the path of the directory, below the file system's `root`, in which the kernel shows the ports of the RDMA
    device `device`."""
    return os.path.join(root, "sys", "class", "infiniband", device, "ports")


def fabric_places(root: str = "/") -> list[tuple[str, int]]:
    """Return the ports of all RDMA devices of this machine as a list of (device, port), in the order of the devices'
    names."""
    devices = names_in(os.path.join(root, "sys", "class", "infiniband"))[:_MOST]
    found = [(device, parse_digits(port)) for device in devices for port in names_in(fabric_directory(root, device))]
    return [(device, port) for device, port in found if port is not None][:_MOST]


def fabric_bytes(places: Iterable[tuple[str, int]], counter: str, root: str = "/") -> dict[str, int]:
    """Return the number of bytes that each RDMA port of `places` has received or sent since the node was booted, by
    names like "mlx5_0/1". `counter` is RECEIVED or SENT. The kernel counts words of four bytes (Linux,
    Documentation/ABI/stable/sysfs-class-infiniband). A port that does not count is missing: EFA's ports do not count,
    and virtual functions do not on every system."""
    found = {}
    for device, port in places:
        text = text_of(os.path.join(fabric_directory(root, device), str(port), "counters", counter), 64)
        if _COUNT.fullmatch(text):
            found[f"{device}/{port}"] = int(text) * _WORD
    return found


def read_sent_bytes(root: str = "/") -> dict[str, int]:
    """Return the number of bytes that each RDMA port of this machine has sent since the node was booted, by names like
    "mlx5_0/1"."""
    return fabric_bytes(fabric_places(root), SENT, root)
