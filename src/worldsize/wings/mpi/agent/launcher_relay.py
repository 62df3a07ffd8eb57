"""The relay of messages from a launcher's program on the head to its programs on other nodes, by their agents.

Each node has a pipe, which is opened by its name under /proc. It leaves no file behind, and when the agent ends, a
program that waits for a line reads the end of the pipe.
"""

from __future__ import annotations

import os
import selectors

from worldsize.agent.control.solo_peers import Peers
from worldsize.plan.node_names import short_names
from worldsize.plan.plan import Plan

_TOPIC = "launch"


class MessageRelay:
    """A relay that reads host names from the head's pipe. For each name, it writes the content of the file of that name
    in `directory` to the pipe of the first node on that host."""

    def __init__(self, peers: Peers, selector: selectors.BaseSelector, node_rank: int, directory: str) -> None:
        self._reading, self._writing = os.pipe()
        self._peers = peers
        self._directory = directory
        self._rest = b""
        if node_rank == 0:
            os.set_blocking(self._reading, False)
            selector.register(self._reading, selectors.EVENT_READ, self._send_requests)
        else:
            peers.listeners[_TOPIC] = self._put

    def with_pipes(self, plan: Plan) -> Plan:
        """Return `plan` with two options added: `source`, the path of this node's pipe, from which a launcher program
        that waits on another node reads its command line, and `target`, the path to which mpirun's helper on the head
        writes host names."""
        here = f"/proc/{os.getpid()}/fd/"
        ends = {"source": here + str(self._reading), "target": here + str(self._writing)}
        return plan._replace(options={**plan.options, **ends})

    def end_waiting_programs(self) -> None:
        """Terminate the launcher programs that wait on the other nodes for a line to execute, after the launcher
        program on the head has ended with 0."""
        for node_rank in range(1, len(self._peers.gather_hosts() or ())):
            self._peers.tell(node_rank, _TOPIC, "exit 0\n")

    def _put(self, node_rank: int, text: str) -> None:
        os.write(self._writing, text.encode(errors="surrogateescape"))

    def _send_requests(self) -> None:
        self._rest += os.read(self._reading, 1 << 16)
        *lines, self._rest = self._rest.split(b"\n")
        names = short_names([host.name for host in self._peers.gather_hosts() or ()])
        for name in (line.decode(errors="surrogateescape") for line in lines):
            if name in names:
                with open(os.path.join(self._directory, name), errors="surrogateescape") as file:
                    self._peers.tell(names.index(name), _TOPIC, file.read())
