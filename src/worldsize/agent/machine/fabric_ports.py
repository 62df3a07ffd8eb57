"""The ports that can carry RDMA, as the kernel's files describe them.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import re

from worldsize.agent.machine.fabric_counters import fabric_directory, fabric_places
from worldsize.agent.machine.node_files import names_in, text_of
from worldsize.common.named_tuple import Any, NamedTuple

ACTIVE = "ACTIVE"
LINK_UP = "LinkUp"
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?) Gb/sec")
_NO_FABRIC = re.compile(r"mlx5_an\d|mana|rxe|siw")
"""Devices that do not connect nodes by RDMA: Azure's accelerated networking, and RDMA in software."""
_HYPER_V = "hv_netvsc"
"""The driver of Azure's network interfaces. A port whose interface is a part of such an interface is accelerated
networking, regardless of the name that the image gives its device."""


class FabricPort(NamedTuple):
    """A port that can carry RDMA.

    state     "ACTIVE", "INIT" or "DOWN"
    physical  "LinkUp", "Polling" and others
    layer     "InfiniBand", "Ethernet" (RoCE), "OmniPath", or the kernel's own word, as "Unspecified" for EFA
    netdev    its network interface; "" if it has none
    """

    device: str
    port: int
    state: str
    physical: str
    rate_gbps: float
    layer: str
    netdev: str

    @property
    def name(self) -> str:
        """The name as NCCL and ibstat write it: mlx5_0/1."""
        return f"{self.device}/{self.port}"

    def fact(self) -> dict[str, Any]:
        """Return the fields of this RDMA port as a dictionary for JSON."""
        return dict(zip(self._fields, self))


def read_ports(root: str = "/") -> list[FabricPort]:
    """Return a FabricPort for each port of this machine that can connect nodes by RDMA, in the order of the devices'
    names. Ports of software RDMA and of Azure's accelerated networking are left out."""
    ports = [_port(root, device, port) for device, port in fabric_places(root) if not _NO_FABRIC.match(device)]
    return [port for port in ports if not (port.netdev and _master_driver(root, port.netdev) == _HYPER_V)]


def _port(root: str, device: str, port: int) -> FabricPort:
    at = os.path.join(fabric_directory(root, device), str(port))
    rate = _RATE.match(text_of(os.path.join(at, "rate")))
    layer = text_of(os.path.join(at, "link_layer"))[:40]
    return FabricPort(
        device=device,
        port=port,
        state=_word(os.path.join(at, "state")),
        physical=_word(os.path.join(at, "phys_state")),
        rate_gbps=float(rate[1]) if rate else 0.0,
        layer="OmniPath" if device.startswith("hfi1") else layer,
        netdev=_netdev(root, device, port),
    )


def _word(path: str) -> str:
    """Return the word after the colon in a file of the kernel that contains a number and its meaning: ACTIVE for "4:
    ACTIVE"."""
    return text_of(path).rpartition(":")[2].strip()[:40]


def _netdev(root: str, device: str, port: int) -> str:
    """Return the name of the network interface of an RDMA port: that of its first GID, else the only interface of the
    device; "" if there is none."""
    first = text_of(os.path.join(fabric_directory(root, device), str(port), "gid_attrs", "ndevs", "0"))
    names = names_in(os.path.join(root, "sys", "class", "infiniband", device, "device", "net"))
    return first[:40] or (names[0][:40] if len(names) == 1 else "")


def _master_driver(root: str, interface: str) -> str:
    """Return the name of the driver of the network interface that `interface` is a part of; "" or another word if it is
    part of none."""
    return os.path.basename(
        os.path.realpath(os.path.join(root, "sys", "class", "net", interface, "master", "device", "driver"))
    )
