"""Ports that stay free until the ranks that need them bind them."""

from __future__ import annotations

import os
import socket
import sys

from worldsize.errors import RendezvousError
from worldsize.plan.launch import NodePlan, Plan

_TRIES = 200


class PortReservation:
    """A port that nothing listens on, outside the range that the kernel hands out by itself, held against every other
    worldsize run of this machine by a name in the abstract socket namespace: the name lives exactly as long as the
    process that holds it, in the same network namespace as the port.

    Binding the port ourselves until the rank wants it would not do: a rank that binds without SO_REUSEADDR would fail.
    """

    def __init__(self) -> None:
        self._mark: socket.socket | None = None
        low, high = _candidates(_ephemeral_range())
        for _ in range(_TRIES):
            port = low + int.from_bytes(os.urandom(4), "big") % (high - low + 1)
            mark = _mark(port)
            if mark is not None and _is_free(port):
                self.port = port
                self._mark = mark
                return
        raise RendezvousError("no free port between %d and %d on %s" % (low, high, socket.gethostname()))


def _candidates(ephemeral: tuple[int, int]) -> tuple[int, int]:
    """The widest span of unprivileged ports that the kernel does not give to others."""
    low, high = ephemeral
    spans = [(20000 if low > 22000 else 1025, low - 1), (high + 1, 65535)]
    return max(spans, key=lambda span: span[1] - span[0])


def _ephemeral_range() -> tuple[int, int]:
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:
            low, high = file.read().split()
            return int(low), int(high)
    except (OSError, ValueError):
        return 32768, 60999


def _mark(port: int) -> socket.socket | None:
    mark = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    if sys.platform == "linux":
        try:
            mark.bind("\0worldsize-port-%d" % port)
        except OSError:
            mark.close()
            return None
    return mark


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def reserve(plan: Plan, node: NodePlan) -> tuple[PortReservation, ...]:
    """The ports that the plan wants of this node beside the head's. Raises RendezvousError."""
    count = {"": 0, "node": 1, "rank": len(node.ranks)}[plan.ports]
    return tuple(PortReservation() for _ in range(count))
