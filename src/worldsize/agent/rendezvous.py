"""How the nodes of an attempt find their head.

`file`   the head publishes rendezvous.json in the run directory, which all nodes share (the default)
`given`  whoever started the agents knows it already: a local run's conductor

A node that cannot learn the head's address fails; there is no fallback to localhost.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Mapping

from worldsize.agent.ports import PortReservation
from worldsize.plan.files import write_json
from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths
from worldsize.plan.values import NamedTuple

_STRANGERS = 128
"""Room for connections that are none of ours (port scans): a node's that finds none is tried again a second later."""


OPEN_FILES = 64
"""Files that the head's agent may have open beside the connections to the other nodes."""


class Rendezvous(NamedTuple):
    """Where the head is: `port` for the ranks, `control_port` for the agents (0 on a single node). `launcher`: what
    starts the ranks, where the plan leaves that to what the head has."""

    address: str
    port: int
    control_port: int
    token: str
    launcher: str = ""

    def settled(self, plan: Plan) -> Plan:
        return plan._replace(launcher=self.launcher) if self.launcher else plan


class Head(NamedTuple):
    """What the head holds for as long as it lives."""

    rendezvous: Rendezvous
    reservation: PortReservation
    listener: socket.socket | None


def open_head(plan: Plan, paths: RunPaths, address: str, environ: Mapping[str, str]) -> Head:
    """Reserve the ranks' port, listen for the agents, and publish both, and what starts the ranks if `environ` decides
    that."""
    reservation = PortReservation()
    launcher = ""
    if "otherwise" in plan.options and plan.batch is None:
        from worldsize.agent.launchers import chosen_launcher

        launcher = chosen_launcher(plan, environ)
    listener = None
    if len(plan.agents) > 1:
        _allow_connections(len(plan.agents))
        listener = socket.create_server((address, 0), backlog=len(plan.agents) + _STRANGERS)
        listener.setblocking(False)
    rendezvous = Rendezvous(
        address, reservation.port, listener.getsockname()[1] if listener else 0, os.urandom(16).hex(), launcher
    )
    write_json(paths.rendezvous, rendezvous._asdict())
    return Head(rendezvous, reservation, listener)


def _allow_connections(nodes: int) -> None:
    """Every node keeps a connection to the head, and a usual limit is 1,024 open files."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = nodes + OPEN_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def read_published(paths: RunPaths) -> Rendezvous | None:
    """What the head published, or None as long as it has not."""
    try:
        with open(paths.rendezvous) as file:
            return Rendezvous(**json.load(file))
    except FileNotFoundError:
        return None


def wait_published(paths: RunPaths, timeout: float) -> Rendezvous | None:
    """The head's publication, looked for with a growing pause (2 ms to 0.5 s); None after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    pause = 0.002
    while True:
        found = read_published(paths)
        if found is not None or time.monotonic() > deadline:
            return found
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)
