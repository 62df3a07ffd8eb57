"""The start of Horovod's own rendezvous server, from the job's environment, next to the ranks of the first node.

The server listens before any rank starts, on a socket that the agent opens, so that no rank can connect too early. It
is terminated together with the other processes that the ranks have left, and no warning reports it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from collections.abc import Mapping

from worldsize.agent.launchers.rank_process import NodeLaunch
from worldsize.agent.posix.processes import find_program, spawn_helper
from worldsize.plan.node_names import node_names
from worldsize.plan.plan import Plan
from worldsize.plan.rank_environment import scrub
from worldsize.plan.rank_variables import RendezvousResult
from worldsize.plan.run_paths import RunPaths

INTERFACE = "HOROVOD_GLOO_IFACE"
_SIOCGIFADDR = 0x8915

_SERVER = """
import socket, sys
from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

class Server(RendezvousHTTPServer):
    def server_bind(self):
        self.socket.close()
        self.socket = socket.socket(fileno=int(sys.argv[1]))
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = self.server_address

    def server_activate(self):
        pass

server = Server(("", 0), RendezvousHandler, 0)
server.init(get_host_assignments(parse_hosts(sys.argv[2]), int(sys.argv[3])))
server.serve_forever()
"""


def prepare(launch: NodeLaunch) -> Mapping[str, str]:
    """Start Horovod's rendezvous server if this node is the head. Return the environment that this node's ranks
    inherit, with the network interface for gloo. Raise OSError if the server cannot be started."""
    environ = with_interface(launch.plan, launch.world, launch.node.node_rank, launch.environ)
    if launch.node.node_rank == 0:
        rank = next(launch._replace(environ=environ, shares=()).ranks())
        start_rendezvous_server(launch.plan, launch.world, launch.paths, rank.environment)
    return environ


def start_rendezvous_server(plan: Plan, world: RendezvousResult, paths: RunPaths, rank: Mapping[str, str]) -> None:
    """Start Horovod's rendezvous server as a helper process, on the head's port that is announced to the ranks. `rank`
    is the environment of one of the ranks, from which the server's is derived. Raise OSError if the server cannot be
    started."""
    head = world.hosts[0]
    names = node_names([host.name for host in world.hosts])
    nodes = ",".join(f"{name}:{len(node.ranks)}" for name, node in zip(names, plan.nodes))
    environment = {**scrub(rank), "WORLDSIZE_RUN_ID": plan.run_id, "WORLDSIZE_RUN_DIR": paths.root}
    with socket.create_server((head.address, head.ports[0]), backlog=plan.world_size) as listener:
        os.set_inheritable(listener.fileno(), True)
        argv = (plan.python, "-c", _SERVER, str(listener.fileno()), nodes, str(plan.world_size))
        log = paths.launcher_log(0, plan.framework)
        spawn_helper(find_program(plan.python, environment), argv, environment, log)


def with_interface(
    plan: Plan, world: RendezvousResult, node_rank: int, environ: Mapping[str, str]
) -> Mapping[str, str]:
    """Return `environ` with HOROVOD_GLOO_IFACE set to the network interface by which this node reached the head. Return
    `environ` unchanged if it, or the plan, already names an interface, or if the interface is not found."""
    if INTERFACE in environ or INTERFACE in plan.environment:
        return environ
    name = interface_of(world.hosts[node_rank].address)
    return {**environ, INTERFACE: name} if name else environ


def interface_of(address: str) -> str | None:
    """Return the name of this node's network interface that has the IPv4 address; None if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # the interface has no address
            if socket.inet_ntoa(found[20:24]) == address:
                return name
    return None
