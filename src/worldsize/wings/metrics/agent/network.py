"""The bytes that a node has received and sent, according to the kernel's counters.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from worldsize.agent.machine.fabric_counters import RECEIVED, SENT, fabric_bytes, fabric_places
from worldsize.agent.machine.node_files import names_in, text_of
from worldsize.wings.metrics.agent.process_use import Growth

_MOST_INTERFACES = 256
_INFINIBAND = "32"
"""The content of `/sys/class/net/NAME/type` for IP over InfiniBand, whose bytes the ports of the fabric count."""
_RECEIVED, _SENT = 0, 8
"""The positions of these counters among the numbers of /proc/net/dev, proc(5)."""


class NodeTraffic:
    """The traffic of a node: the bytes since the first reading of the interfaces and fabric ports that the node had
    when this object was created.

    Nothing is counted with `is_shared`, for nodes that share one machine: the interfaces count the traffic of all of
    these nodes, but not the traffic between them.
    """

    def __init__(self, root: str = "/", is_shared: bool = False) -> None:
        self._root = root
        counted = [] if is_shared else fabric_places(root)
        ports = fabric_bytes(counted, SENT, root)
        self._places = [(device, port) for device, port in counted if f"{device}/{port}" in ports]
        self.interfaces = () if is_shared else counted_interfaces(root, bool(self._places))
        self._received: dict[str, Growth] = {}
        self._sent: dict[str, Growth] = {}

    def read(self) -> tuple[int | None, int | None]:
        """Return the bytes that the node has received and sent since the first reading; None where nothing counts
        them."""
        rows = _interface_bytes(self._root, self.interfaces)
        received = {name: row[0] for name, row in rows.items()}
        sent = {name: row[1] for name, row in rows.items()}
        if self._places:
            received.update(fabric_bytes(self._places, RECEIVED, self._root))
            sent.update(fabric_bytes(self._places, SENT, self._root))
        return _grown(self._received, received), _grown(self._sent, sent)


def counted_interfaces(root: str = "/", has_fabric: bool = False) -> tuple[str, ...]:
    """Return the names of the network interfaces whose bytes are a node's own traffic. `root` is the root of the file
    system; `has_fabric` is whether the ports of an InfiniBand fabric are counted.

    Not included are: the loopback interface; an interface on top of others, which count the same bytes (a bond, a
    bridge, a VLAN); a port of a bridge that belongs to a container's virtual cable; and, with a fabric, IP over
    InfiniBand.
    """
    found = []
    for name in _rows(root):
        at = os.path.join(root, "sys", "class", "net", name)
        inside = names_in(at)
        is_cable = "brport" in inside and "device" not in inside
        is_stacked = any(each.startswith("lower_") for each in inside)
        is_fabric = has_fabric and text_of(f"{at}/type", 64) == _INFINIBAND
        if name != "lo" and not (is_cable or is_stacked or is_fabric):
            found.append(name)
    return tuple(found)


def _grown(counters: dict[str, Growth], readings: Mapping[str, int]) -> int | None:
    for name, reading in readings.items():
        counters.setdefault(name, Growth(None)).add(reading)
    totals = [each.total for each in counters.values() if each.total is not None]
    return sum(totals) if totals else None


def _interface_bytes(root: str, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    rows = _rows(root)
    return {name: rows[name] for name in names if name in rows}


def _rows(root: str) -> dict[str, tuple[int, int]]:
    """Read /proc/self/net/dev below the file system root `root`, and return the bytes received and sent by each network
    interface, by the interface's name. Lines with fewer than sixteen numbers are left out."""
    found = {}
    for line in text_of(os.path.join(root, "proc/self/net/dev")).split("\n")[:_MOST_INTERFACES]:
        name, _, rest = line.rpartition(":")
        numbers = rest.split()
        plain = name.strip()
        if len(numbers) >= 16 and all(each.isdigit() for each in numbers) and plain and "/" not in plain:
            found[plain] = int(numbers[_RECEIVED]), int(numbers[_SENT])
    return found
