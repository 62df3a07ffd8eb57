"""Reservation of ports until the ranks that need them bind them."""

from __future__ import annotations

import _socket  # the module socket, which makes enums of the constants, takes 1 ms of every start
import os
import sys
from collections.abc import Mapping

from worldsize.agent.posix.processes import host_name
from worldsize.common.atomic_files import read_if_possible
from worldsize.common.digests import blake2b
from worldsize.errors import RendezvousError
from worldsize.plan.plan import NodePlan, Plan
from worldsize.trust.keys import user_key

_TRIES = 200

RAS_VARIABLE = "NCCL_RAS_ADDR"
"""The environment variable with the address at which NCCL's RAS listens on each node: HOST:PORT. NCCL's own default is
one port for all runs."""

_GPUS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Device files of a node whose GPUs NCCL or RCCL can use."""


class PortReservation:
    """A port that is reserved for this process: nothing listens on it, and the kernel does not assign it by itself.

    A name in the abstract socket namespace holds the port against every other worldsize run of this user on this
    machine. The name exists exactly while the process that holds it lives, in the same network namespace as the port.
    All users see such names. The names are derived with a key of this user, so that other users can neither compute the
    port from a name nor take the name of a port first. Without a key there is no name, and two runs that begin at the
    same moment take the same port once in ten thousand times.

    The port is not bound here until the rank needs it, because a rank that binds without SO_REUSEADDR would then fail.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._mark: _socket.socket | None = None
        key = user_key(environ)
        low, high = _candidates(_ephemeral_range())
        for _ in range(_TRIES):
            port = low + int.from_bytes(os.urandom(4), "big") % (high - low + 1)
            mark = _take_mark(port, key)
            if mark is not None and _is_free(port):
                self.port = port
                self._mark = mark
                return
        raise RendezvousError(f"no free port between {low} and {high} on {host_name()}")


def _candidates(ephemeral: tuple[int, int]) -> tuple[int, int]:
    """Return the first and the last port of the widest span of unprivileged ports outside the span `ephemeral`, from
    which the kernel assigns ports by itself."""
    low, high = ephemeral
    spans = [(20000 if low > 22000 else 1025, low - 1), (high + 1, 65535)]
    return max(spans, key=lambda span: span[1] - span[0])


def _ephemeral_range() -> tuple[int, int]:
    """Return the first and the last TCP port that the kernel assigns by itself (`ip_local_port_range`); the defaults of
    Linux if the kernel does not report them."""
    low, high = read_if_possible("/proc/sys/net/ipv4/ip_local_port_range").split() or (32768, 60999)
    return int(low), int(high)


def _take_mark(port: int, key: bytes | None) -> _socket.socket | None:
    """Bind a socket to the name in the abstract namespace that reserves `port` for this process, and return the socket;
    it has no name if there is no `key`, or on systems other than Linux. Return None if another process has the name."""
    mark = _socket.socket(_socket.AF_UNIX, _socket.SOCK_DGRAM)
    if sys.platform == "linux" and key is not None:
        try:
            mark.bind("\0worldsize-{}".format(blake2b(b"%d" % port, key=key, digest_size=16).hexdigest()))
        except OSError:
            mark.close()
            return None
    return mark


def _is_free(port: int) -> bool:
    probe = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    try:
        probe.bind(("", port))
    except OSError:
        return False
    finally:
        probe.close()
    return True


def reserve_ports(plan: Plan, node: NodePlan) -> tuple[PortReservation, ...]:
    """Reserve the ports that the run's plan needs on this node, in addition to the head's port: none, one, or one for
    each rank of the node. Return a PortReservation for each. Raise RendezvousError if no port is free; raise OSError.
    """
    count = {"": 0, "node": 1, "rank": len(node.ranks)}[plan.ports]
    return tuple(PortReservation() for _ in range(count))


def reserve_ras_port(plan: Plan, environ: Mapping[str, str]) -> PortReservation | None:
    """Reserve a port of this node for NCCL's RAS in the ranks, so that a RAS client that connects to the port reaches
    this run. Return the reservation.

    Return None if the run has no watchdog timeout, if the node has no GPUs, if the user has set the address, or if no
    port is available. If this process itself runs inside another run, an address in the environment comes from that run
    and not from the user.
    """
    is_named = RAS_VARIABLE in environ and "WORLDSIZE_RUN_DIR" not in environ
    has_gpus = any(map(os.path.exists, _GPUS)) if plan.gpus is None else plan.gpus > 0
    if not plan.watchdog_timeout or not has_gpus or is_named:
        return None
    try:
        return PortReservation()
    except (RendezvousError, OSError):
        return None
