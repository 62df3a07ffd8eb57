"""The network interfaces of a node, and the one by which it reaches another node.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct

from worldsize.agent.machine.node_files import text_of
from worldsize.common.named_tuple import Any
from worldsize.common.numbers import parse_digits
from worldsize.wings.checks.agent.node_context import NodeContext

_SIOCGIFCONF = 0x8912
_MOST = 256
_KINDS = {1: "Ethernet", 32: "InfiniBand", 772: "loopback"}
"""The kinds of interfaces, by `/sys/class/net/NAME/type`, the kernel's ARPHRD_*."""


def route_address(address: str, port: int) -> str:
    """Return this node's own IP address on the route to another node's `address` and `port`; "" if there is no route.
    Nothing is sent."""
    try:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, port))
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def interface_addresses(context: NodeContext) -> list[tuple[str, str]]:
    """Return the pairs of a network interface of this node that is up and an IP address of it. An interface with
    several addresses is listed several times."""
    return list(dict.fromkeys(_ipv4_addresses() + _ipv6_addresses(context)))


def _ipv4_addresses() -> list[tuple[str, str]]:
    """Return the pairs of a network interface of this node and its IPv4 address, by SIOCGIFCONF of netdevice(7): a
    structure of 16 bytes of name, 2 of family, 2 of port, and the address. Empty on another system than Linux."""
    size = 40 if struct.calcsize("P") == 8 else 32
    buffer = array.array("B", bytes(size * _MOST))
    request = struct.pack("iP", len(buffer), buffer.buffer_info()[0])
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            filled = struct.unpack("iP", fcntl.ioctl(asked, _SIOCGIFCONF, request))[0]
    except OSError:
        return []  # another system than Linux
    data = buffer.tobytes()[:filled]
    entries = [data[start : start + size] for start in range(0, len(data), size)]
    return [(_interface_name(entry), socket.inet_ntoa(entry[20:24])) for entry in entries if len(entry) == size]


def _interface_name(entry: bytes) -> str:
    return entry[:16].partition(b"\0")[0].decode("utf-8", "replace").partition(":")[0]  # eth0:1 is an address of eth0


def _ipv6_addresses(context: NodeContext) -> list[tuple[str, str]]:
    found = []
    for line in text_of(context.path("proc", "net", "if_inet6")).split("\n")[:_MOST]:
        words = line.split()
        try:
            found.append((words[5], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(words[0]))))
        except (IndexError, ValueError, OSError):
            continue  # not a line with an address
    return found


def interface_facts(context: NodeContext, name: str) -> dict[str, Any]:
    """Return the facts of the network interface `name` of this node: its `name`, `kind`, `mbps` (Mb/s; None if the
    driver does not know it, as for virtual interfaces) and `mtu` (bytes)."""
    folder = context.path("sys", "class", "net", name)
    kind = parse_digits(text_of(f"{folder}/type"))
    speed, mtu = parse_digits(text_of(f"{folder}/speed")), parse_digits(text_of(f"{folder}/mtu"))
    words = "unknown" if kind is None else _KINDS.get(kind, f"type {kind}")
    return {"name": name, "kind": words, "mbps": speed if speed and speed < 1 << 31 else None, "mtu": mtu}


def route_facts(context: NodeContext, address: str, port: int) -> dict[str, Any]:
    """Return the facts of the network interface by which this node reaches `address`, with the node's own `address`
    there, and `faster`: the names of the interfaces that are up, have an address and a higher speed. Empty if the
    interface is not known."""
    own = route_address(address, port)
    addressed = interface_addresses(context)
    name = next((name for name, held in addressed if held == own), "")
    if not name or "/" in name or name.startswith("."):
        return {}
    facts = interface_facts(context, name)
    others = [interface_facts(context, each) for each in dict.fromkeys(each for each, _ in addressed) if each != name]
    faster = [each["name"] for each in others if facts["mbps"] and (each["mbps"] or 0) > facts["mbps"]]
    return {**facts, "address": own, "faster": faster[:8]}
