"""The rendezvous: the way in which the nodes of an attempt find their head.

`file`   the head publishes rendezvous.json in the run directory, which all nodes share (the default)
`given`  the process that started the agents knows the head already: a local run's conductor

A node that cannot find out the head's address fails. There is no fallback to localhost.
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
"""Room for connections that do not belong to the run (port scans). A node that finds no room tries again a second
later."""

STRANGERS = 64
"""The number of connections that have not proved their identity, in addition to those of the nodes that are still
missing."""

OPEN_FILES = 64 + STRANGERS
"""The number of files that the head's agent may have open in addition to the connections to the other nodes."""


class Rendezvous(NamedTuple):
    """The location of the head. `port` is the port for the ranks. `control_port` is the port for the agents; 0 on a
    single node, and if the agents meet at a socket in the attempt's directory. `launcher` is the launcher that starts
    the ranks, if the plan leaves the choice to the head."""

    address: str
    port: int
    control_port: int
    token: str
    launcher: str = ""

    def endpoint(self, paths: RunPaths) -> Endpoint:
        """Return the endpoint at which the head's agent listens for the other nodes' agents: the head's address and
        control port, or, if there is no such port, the path of the socket in the attempt's directory."""
        return (self.address, self.control_port) if self.control_port else paths.control_socket

    def with_launcher(self, plan: Plan) -> Plan:
        return plan._replace(launcher=self.launcher) if self.launcher and leaves_launcher_open(plan) else plan


def leaves_launcher_open(plan: Plan) -> bool:
    """Return whether the plan lets the head choose the launcher of the ranks, depending on what is available on the
    head's node: the plan names an alternative (`otherwise`) and no batch script."""
    return "otherwise" in plan.options and plan.batch is None


class HeadResources(NamedTuple):
    """The resources that the head holds while it runs."""

    rendezvous: Rendezvous
    reservation: PortReservation
    listener: socket.socket | None


def open_head(plan: Plan, paths: RunPaths, address: str, launcher: str) -> HeadResources:
    """Reserve the port of the ranks on the head's node, listen for the other nodes' agents if there are any, and write
    rendezvous.json with the head's `address`, both ports, a new token, and the `launcher` ("" unless the head chose
    it). Return the resources that the head must keep open."""
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
    """Create and return the socket at which the head listens for the other agents. If `address` is the loopback
    address, the nodes are virtual, and it is a Unix-domain socket that no other user can reach. It is a TCP port of
    `address` if the file system has no sockets, or if the nodes are not virtual."""
    if address == LOOPBACK:
        from worldsize.agent.control.endpoint import listen

        try:
            return listen(paths.control_socket, backlog)
        except OSError:  # the file system has no sockets
            pass
    from socket import create_server

    return create_server((address, 0), backlog=backlog)


def _allow_connections(nodes: int) -> None:
    """Raise this process's limit of open files if it is too low for a connection from the head to every one of `nodes`
    nodes, at most up to the hard limit. The limit is usually 1,024."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = nodes + OPEN_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def read_rendezvous(paths: RunPaths) -> Rendezvous | None:
    """Read rendezvous.json, in which the head of the attempt publishes its address, ports and token. Return None if the
    head has published none yet."""
    return read_record(paths.rendezvous, partial(tuple_of, Rendezvous))


def wait_for_rendezvous(
    paths: RunPaths,
    timeout: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Rendezvous | None:
    """Wait until the head of the attempt has published its rendezvous (address, ports, token), and return it. Return
    None after `timeout` seconds, or if the head has ended without publishing it. The pause between two reads grows from
    2 ms to 0.5 s."""
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
