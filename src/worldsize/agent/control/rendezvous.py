"""How the nodes of an attempt find their head.

`file`   the head publishes rendezvous.json in the run directory, which all nodes share (the default)
`given`  the process that started the agents knows it already: a local run's conductor

A node that cannot learn the head's address fails; there is no fallback to localhost.
"""

from __future__ import annotations

import os
import time
from functools import partial

from worldsize.agent.control.ports import PortReservation
from worldsize.common.atomic_files import write_json
from worldsize.common.json_values import read_record, tuple_of
from worldsize.common.named_tuple import NamedTuple
from worldsize.plan.plan import Plan
from worldsize.plan.rank_variables import LOOPBACK
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_exit

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    from worldsize.agent.control.endpoint import Endpoint

_BACKLOG = 128
"""Room for connections that do not belong to the run (port scans): a node that finds no room tries again a second
later."""

STRANGERS = 64
"""Connections that have not proved who they are, beside those of the nodes that are still missing."""

OPEN_FILES = 64 + STRANGERS
"""Files that the head's agent may have open beside the connections to the other nodes."""


class Rendezvous(NamedTuple):
    """Where the head is: `port` for the ranks, `control_port` for the agents (0 on a single node, and where they meet
    at a socket in the attempt's directory). `launcher`: what starts the ranks, where the plan leaves the choice to the
    head."""

    address: str
    port: int
    control_port: int
    token: str
    launcher: str = ""

    def endpoint(self, paths: RunPaths) -> Endpoint:
        """Where the head listens for the other agents."""
        return (self.address, self.control_port) if self.control_port else paths.control_socket

    def with_launcher(self, plan: Plan) -> Plan:
        return plan._replace(launcher=self.launcher) if self.launcher and leaves_launcher_open(plan) else plan


def leaves_launcher_open(plan: Plan) -> bool:
    """Return whether the head is to choose what starts the ranks, by what its node has."""
    return "otherwise" in plan.options and plan.batch is None


class HeadResources(NamedTuple):
    """What the head holds for as long as it lives."""

    rendezvous: Rendezvous
    reservation: PortReservation
    listener: socket.socket | None


def open_head(plan: Plan, paths: RunPaths, address: str, launcher: str) -> HeadResources:
    """Reserve the ranks' port, listen for the agents, and publish both, and the `launcher` if the head chose it."""
    reservation = PortReservation()
    listener = None
    if len(plan.agents) > 1:
        _allow_connections(len(plan.agents))
        listener = _open_listener(paths, address, len(plan.agents) + _BACKLOG)
        listener.setblocking(False)
    at = listener.getsockname() if listener else ""
    control_port = 0 if isinstance(at, (str, bytes)) else at[1]
    rendezvous = Rendezvous(address, reservation.port, control_port, os.urandom(16).hex(), launcher)
    write_json(paths.rendezvous, rendezvous._asdict(), private=True)
    return HeadResources(rendezvous, reservation, listener)


def _open_listener(paths: RunPaths, address: str, backlog: int) -> socket.socket:
    """Listen where virtual nodes of one run directory meet: at a socket that no other user can reach; at a port only
    where the file system has no sockets, and where the nodes are not virtual."""
    if address == LOOPBACK:
        from worldsize.agent.control.endpoint import listen

        try:
            return listen(paths.control_socket, backlog)
        except OSError:  # the file system has no sockets
            pass
    from socket import create_server

    return create_server((address, 0), backlog=backlog)


def _allow_connections(nodes: int) -> None:
    """Raise the limit of open files where it is too low for a connection to every node: usually it is 1,024."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = nodes + OPEN_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def read_rendezvous(paths: RunPaths) -> Rendezvous | None:
    """What the head published, or None as long as it has not."""
    return read_record(paths.rendezvous, partial(tuple_of, Rendezvous))


def wait_for_rendezvous(
    paths: RunPaths,
    timeout: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Rendezvous | None:
    """Wait until the head has published, with a growing pause between two looks (2 ms to 0.5 s); None after `timeout`
    seconds, or where the head has ended before."""
    deadline = clock() + timeout
    pause = 0.002
    while True:
        found = read_rendezvous(paths)
        if found is not None or clock() > deadline:
            return found
        if read_exit(paths, 0) is not None:
            return read_rendezvous(paths)
        sleep(pause)
        pause = min(pause * 1.5, 0.5)
