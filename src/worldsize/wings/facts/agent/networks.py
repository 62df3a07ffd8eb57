"""The network devices of a machine, with their speed.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from worldsize.agent.machine.fabric_ports import ACTIVE, FabricPort, read_ports
from worldsize.agent.machine.node_files import names_in, text_of
from worldsize.common.numbers import parse_digits

_LAYERS = {"InfiniBand": "InfiniBand", "Ethernet": "RoCE", "OmniPath": "Omni-Path", "Unspecified": "EFA"}
_INFINIBAND = "32"
"""The content of `/sys/class/net/NAME/type` for IP over InfiniBand, whose ports are listed already."""
_HIGHEST = 1 << 31
"""The limit of valid speeds in Mb/s. A driver that does not know the speed writes -1 as an unsigned number, or a
text."""
_MOST = 256
_MOST_TOLD = 8


def network_text(root: str = "/") -> str:
    """Return a text on the machine's network devices, such as "4 × InfiniBand 200 Gb/s (mlx5_0/1 to mlx5_3/1), eth0 25
    Gb/s". It lists active ports that can carry RDMA, then the other devices that are up. Virtual devices are listed
    only if there are no others, as in containers."""
    ports = [port for port in read_ports(root) if port.state == ACTIVE]
    told = {port.netdev for port in ports}
    names = [name for name in _interfaces(root) if name not in told]
    texts = [*_port_texts(ports), *(_interface_text(root, name) for name in names)]
    more = len(texts) - _MOST_TOLD
    return ", ".join([*texts[:_MOST_TOLD], *([f"and {more} more"] if more > 0 else [])])


def _port_texts(ports: Sequence[FabricPort]) -> Iterable[str]:
    """Yield one text for the RDMA ports of each kind and rate: "4 × InfiniBand 200 Gb/s (mlx5_0/1 to mlx5_3/1)"."""
    kinds: dict[str, list[str]] = {}
    for port in ports:
        rate = f" {port.rate_gbps:g} Gb/s" if port.rate_gbps else ""
        kinds.setdefault(_LAYERS.get(port.layer, port.layer) + rate, []).append(port.name)
    for kind, names in kinds.items():
        place = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        yield f"{kind} ({place})" if len(names) == 1 else f"{len(names)} × {kind} ({place})"


def _interfaces(root: str) -> list[str]:
    at = os.path.join(root, "sys/class/net")
    up = [name for name in names_in(at)[:_MOST] if name != "lo" and _is_up(os.path.join(at, name))]
    up = [name for name in up if text_of(os.path.join(at, name, "type"), 64) != _INFINIBAND]
    return [name for name in up if os.path.exists(os.path.join(at, name, "device"))] or up


def _is_up(directory: str) -> bool:
    return text_of(os.path.join(directory, "operstate"), 64) == "up"


def _interface_text(root: str, name: str) -> str:
    """Return the name and speed of a network interface, such as "eth0 25 Gb/s". Return the name alone if the driver
    does not know the speed, as for virtual devices."""
    speed = parse_digits(text_of(os.path.join(root, "sys/class/net", name, "speed"), 64))
    if not speed or speed >= _HIGHEST:
        return name[:40]
    return f"{name[:40]} {speed / 1000:g} Gb/s" if speed >= 1000 else f"{name[:40]} {speed} Mb/s"
