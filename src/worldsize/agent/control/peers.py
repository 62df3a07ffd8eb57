"""The other nodes as the supervisor of the head sees them, and as the supervisor of a member sees them.

All nodes agree on one verdict: members propose verdicts to the head, the head decides, and all nodes adopt its
decision.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Sequence

from worldsize.agent.control.channel import HELLO, HeadChannel, MemberChannel
from worldsize.agent.control.endpoint import Endpoint, endpoint_text
from worldsize.agent.control.host_list import host_fields, hosts_of
from worldsize.agent.control.link import GONE, Clock, longest_line
from worldsize.agent.control.rendezvous import HeadResources, Rendezvous
from worldsize.agent.control.solo_peers import Peers, Standstill
from worldsize.agent.outcome.verdict import HEAD_LOST, NODE_LOST, PeerVerdict, Verdict, lost_node_verdict
from worldsize.common.atomic_files import try_unlink
from worldsize.common.json_values import tuple_of
from worldsize.common.named_tuple import Any
from worldsize.plan.rank_variables import Host
from worldsize.state.clocks import clock_offset

CONNECT_TIMEOUT = 1.0
_WELCOME_AFTER = 0.5
"""Seconds after which a node gets a separate welcome message. Most runs have begun by then, and waking a node once more
takes longer than the whole proof."""
REFUSALS = 50
"""Refused attempts in a row, 20 ms apart, after which the head counts as gone. The head listens before it publishes its
address."""
_REFUSED = "the head's agent has ended, or a firewall separates the nodes (%s: connection refused)"
_NO_ROOM = " (the head cannot accept more: %s; see ulimit -Hn there)"
_ADVICE = (
    "a firewall may block it, or other nodes cannot use this address: `export WORLDSIZE_ADDRESS=…` in "
    "setup sets another"
)


class HeadPeers(Peers):
    def __init__(
        self,
        own: Host,
        head: HeadResources,
        endpoint: Endpoint,
        nodes: int,
        selector: selectors.BaseSelector,
        clock: Clock = time.monotonic,
    ) -> None:
        super().__init__(own, clock)
        assert head.listener is not None
        self._channel = HeadChannel(head.listener, head.rendezvous.token, nodes, selector, clock, _WELCOME_AFTER)
        self._nodes = nodes
        self._address = endpoint_text(endpoint)
        self._endpoint = endpoint
        self._hosts: tuple[Host, ...] | None = None
        self._ready: dict[int, int] = {}
        self._ready_nodes: dict[int, int] = {}  # by the number of parts, so that a check need not visit every node
        self._going = 0
        self._idle: dict[int, Standstill] = {}
        self._verdict: Verdict | None = None

    def gather_hosts(self) -> tuple[Host, ...] | None:
        others = self._channel.hosts
        if self._hosts is None and len(others) == self._nodes - 1:
            self._hosts = (self._own, *(others[node_rank] for node_rank in sorted(others)))
            self._send_start(self._hosts)
            self._remove_socket()
        return self._hosts

    def _send_start(self, hosts: Sequence[Host]) -> None:
        """Send the message "start" with the list of all nodes' hosts to all nodes. If the nodes are not all on this
        machine, each node first gets a message "met" with the times by which it measures the offset of its clock. In
        the list, these times would be the longest part of what every node receives."""
        if not self._channel.is_within_machine:
            for node_rank, read in self._channel.greeted.items():
                self._channel.prepare_for(node_rank, "met", greeted=read, sent=time.time())
        self._channel.send("start", **host_fields(hosts))

    def report_ready(self, parts: int) -> bool:
        if self._going < parts and self._ready_nodes.get(parts, 0) == self._nodes - 1:
            self._going = parts
            self._channel.send("go", parts=parts)
        return self._going >= parts

    def take_verdicts(self) -> list[PeerVerdict]:
        heard = [self._handle_message(node_rank, message) for node_rank, message in self._channel.take()]
        return [each for each in heard if each is not None]

    def _handle_message(self, node_rank: int, message: dict[str, Any]) -> PeerVerdict | None:
        kind = message["kind"]
        if kind == "verdict":
            return PeerVerdict(tuple_of(Verdict, message))
        if kind == "idle":
            self.check_standstill = True
            self._idle[node_rank] = message["waiting"], message["seconds"]
        elif kind == "ready":
            self._count_ready(node_rank, message["parts"])
        elif kind == "ended":
            self.report_ended(message["ranks"])
        elif kind == "told":
            self._call_listener(node_rank, message)
        elif kind == "done":
            self.check_standstill = True
            self.done_nodes.add(node_rank)
        elif kind == HELLO and self._verdict is not None:
            self._channel.send_to(node_rank, "verdict", **self._verdict.fields())
        elif kind == GONE and node_rank not in self.done_nodes:
            return self._handle_lost_node(node_rank, "its agent has ended (connection lost)")
        return None

    def _count_ready(self, node_rank: int, parts: int) -> None:
        for each in range(self._ready.get(node_rank, 0) + 1, parts + 1):
            self._ready_nodes[each] = self._ready_nodes.get(each, 0) + 1
            self._ready[node_rank] = each

    def _handle_lost_node(self, node_rank: int, what: str) -> PeerVerdict | None:
        self.done_nodes.add(node_rank)
        if self._verdict is not None or len(self.lost_nodes) >= self.spare_nodes:
            known = self._channel.hosts.get(node_rank)
            return PeerVerdict(lost_node_verdict(NODE_LOST, node_rank, what, known.name if known else ""))
        self.lost_nodes = (*self.lost_nodes, node_rank)
        return None

    def send_verdict(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self._channel.send("verdict", **verdict.fields())

    def tell(self, node_rank: int, topic: str, text: str) -> None:
        self._channel.send_to(node_rank, "told", topic=topic, text=text)

    def may_end(self, late: bool) -> bool:
        """Return whether the head's agent may end: all joined nodes have ended or are lost, or `late` is true. The head
        does not wait for nodes that never joined, unless all nodes have met or are expected, because these would look
        for the head in vain."""
        expected = self._nodes - 1 if self._hosts or self.expects_all else len(self._channel.hosts)
        return late or len(self.done_nodes) >= expected  # done_nodes contains only nodes that have joined

    def send_heartbeat(self, silence: float) -> list[PeerVerdict]:
        self._channel.send("ping", watch=self.check_standstill)
        silent = self._channel.silent_nodes(silence)
        for node_rank in silent:
            self._channel.drop(node_rank)
        what = f"its agent has sent nothing for {silence:g} s"
        heard = [self._handle_lost_node(node_rank, what) for node_rank in silent]
        return [each for each in heard if each is not None]

    def share_standstill(self, own: Standstill) -> Sequence[Standstill]:
        """Return the standstills (idle ranks and seconds) of all nodes that have not ended, with the head's `own`
        first; an empty list if one of the nodes has not reported since the last call. Each report counts once, because
        a node that does not repeat its report may have made progress since."""
        said, self._idle = self._idle, {}
        left = set(range(1, self._nodes)) - self.done_nodes
        return [own, *(said[node_rank] for node_rank in left)] if said.keys() >= left else []

    def reset_silence(self) -> None:
        self._channel.reset_silence()

    def missing_text(self, within: str = "") -> str:
        missing = [str(rank) for rank in range(1, self._nodes) if rank not in self._channel.hosts]
        why = _NO_ROOM % self._channel.trouble if self._channel.trouble else ""
        what = "%d of %d nodes did not join the head (%s) at %s%s: %s%s"
        return what % (len(missing), self._nodes, self._own.name, self._address, within, ", ".join(missing), why)

    def close(self, verdict: Verdict | None) -> None:
        self._channel.send("end", verdict=verdict.fields() if verdict else None)
        self._channel.close()
        self._remove_socket()

    def _remove_socket(self) -> None:
        """Remove the file of the socket at which the head's agent listens, if it listens at a socket and not at a port.
        It is not needed once all nodes have joined, because virtual nodes do not join a second time."""
        if isinstance(self._endpoint, str):
            try_unlink(self._endpoint)


class MemberPeers(Peers):
    def __init__(
        self,
        own: Host,
        node_rank: int,
        rendezvous: Rendezvous,
        endpoint: Endpoint,
        selector: selectors.BaseSelector,
        clock: Clock = time.monotonic,
        nodes: int = 1,
    ) -> None:
        """Prepare the connection to the head, without opening it. `nodes` is the number of nodes of the run, which
        determines the maximum length of the head's messages."""
        super().__init__(own, clock)
        self._node_rank = node_rank
        self._head_address = rendezvous.address
        self._address = endpoint_text(endpoint)
        self._channel = MemberChannel(endpoint, rendezvous.token, selector, clock, longest_line(nodes))
        self._hosts: tuple[Host, ...] | None = None
        self._ready = 0
        self._going = 0
        self._ended = False
        self._head_gone = False
        self._refusals = 0
        self._greeted_at = 0.0

    @property
    def has_joined(self) -> bool:
        return self._channel.connected or self._head_gone

    @property
    def needs_quick_retry(self) -> bool:
        return not (self.has_joined or self._channel.has_unproved_head)

    @property
    def address(self) -> str:
        return self._channel.own_address or self._head_address

    def gather_hosts(self) -> tuple[Host, ...] | None:
        if not self.has_joined:
            self._connect()
        return self._hosts

    def report_ready(self, parts: int) -> bool:
        if self._ready < parts:
            self._ready = parts
            self._channel.send("ready", parts=parts)
        return self._going >= parts

    def _connect(self) -> None:
        try:
            connected = self._channel.connect(CONNECT_TIMEOUT)
        except ConnectionRefusedError:
            self._refusals += 1
            return
        self._refusals = 0
        if connected:
            reached = self._own.ports and not self._own.address
            own = self._own._replace(address=self.address) if reached else self._own
            self._greeted_at = time.time()
            self._channel.send(HELLO, node_rank=self._node_rank, host=own)

    def take_verdicts(self) -> list[PeerVerdict]:
        if self._refusals > REFUSALS and not self._head_gone:
            self._head_gone = True
            return [self._head_lost_verdict(_REFUSED % self._address)]
        heard = [self._handle_message(message) for message in self._channel.take()]
        return [each for each in heard if each is not None]

    def _handle_message(self, message: dict[str, Any]) -> PeerVerdict | None:
        kind = message["kind"]
        if kind == "start":
            self._hosts = hosts_of(message)
        elif kind == "met":
            self.clock = clock_offset(self._greeted_at, message["greeted"], message["sent"], time.time())
        elif kind == "go":
            self._going = message["parts"]
        elif kind == "ping":
            self.check_standstill = self.check_standstill or message["watch"]
        elif kind == "told":
            self._call_listener(0, message)
        elif kind == "verdict":
            return PeerVerdict(tuple_of(Verdict, message), final=True)
        elif kind == "end":
            self._ended = True
            return PeerVerdict(tuple_of(Verdict, message["verdict"]), final=True) if message["verdict"] else None
        elif kind == GONE:
            self._head_gone = True
            if not self._ended:
                return self._head_lost_verdict("the head's agent has ended (connection lost)")
        return None

    def _head_lost_verdict(self, what: str) -> PeerVerdict:
        return PeerVerdict(lost_node_verdict(HEAD_LOST, 0, what, self._hosts[0].name if self._hosts else ""))

    def send_verdict(self, verdict: Verdict) -> None:
        self._channel.send("verdict", **verdict.fields())

    def tell(self, node_rank: int, topic: str, text: str) -> None:
        self._channel.send("told", topic=topic, text=text)

    def report_ended(self, ranks: Sequence[int]) -> None:
        self._channel.send("ended", ranks=ranks)

    def report_done(self) -> None:
        self._channel.send("done")

    def may_end(self, late: bool) -> bool:
        return late or self._ended or not (self._channel.connected or self._channel.has_unproved_head)

    def send_heartbeat(self, silence: float) -> list[PeerVerdict]:
        self._channel.send("ping")
        if not self._channel.is_silent(silence):
            return []
        self._channel.close()
        self._head_gone = True
        return [self._head_lost_verdict(f"the head's agent has sent nothing for {silence:g} s")]

    def share_standstill(self, own: Standstill) -> Sequence[Standstill]:
        self._channel.send("idle", waiting=own[0], seconds=own[1])
        return []

    def reset_silence(self) -> None:
        self._channel.reset_silence()

    def missing_text(self, within: str = "") -> str:
        what = "node %d (%s) could not join the head at %s%s: %s (%s)"
        why = self._channel.trouble or "no answer"
        return what % (self._node_rank, self._own.name, self._address, within, why, _ADVICE)

    def close(self, verdict: Verdict | None) -> None:
        self._channel.close()
