"""The ways out of a machine, with their speed.

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
"""`/sys/class/net/NAME/type` of IP over InfiniBand, whose ports are told already."""
_HIGHEST = 1 << 31
"""Mb/s: what a driver writes that does not know is -1 as an unsigned number, or a text."""
_MOST = 256
_MOST_TOLD = 8


def network_text(root: str = "/") -> str:
    """ "4 × InfiniBand 200 Gb/s (mlx5_0/1 to mlx5_3/1), eth0 25 Gb/s": active ports that can carry RDMA, then the other
    devices that are up; virtual ones only where there is nothing else, as in containers."""
    ports = [port for port in read_ports(root) if port.state == ACTIVE]
    told = {port.netdev for port in ports}
    names = [name for name in _interfaces(root) if name not in told]
    texts = [*_port_texts(ports), *(_interface_text(root, name) for name in names)]
    more = len(texts) - _MOST_TOLD
    return ", ".join([*texts[:_MOST_TOLD], *([f"and {more} more"] if more > 0 else [])])


def _port_texts(ports: Sequence[FabricPort]) -> Iterable[str]:
    """Ports of one kind and rate as one text."""
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
    """ "eth0 25 Gb/s"; the name alone where the driver knows no speed, as of virtual devices."""
    speed = parse_digits(text_of(os.path.join(root, "sys/class/net", name, "speed"), 64))
    if not speed or speed >= _HIGHEST:
        return name[:40]
    return f"{name[:40]} {speed / 1000:g} Gb/s" if speed >= 1000 else f"{name[:40]} {speed} Mb/s"
