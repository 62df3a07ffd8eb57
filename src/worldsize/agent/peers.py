"""The other nodes, as the supervisor sees them: alone, as the head, or as a member.

All three agree on one verdict: members propose to the head, the head decides, and everybody adopts what it says.
"""

from __future__ import annotations

import selectors
import time
from typing import Any, NamedTuple

from worldsize.agent.channel import GONE, HELLO, HeadChannel, MemberChannel
from worldsize.agent.rendezvous import Head, Rendezvous
from worldsize.agent.verdict import HEAD_LOST, NODE_LOST, Verdict
from worldsize.plan.environ import Host
from worldsize.state.records import Failure, Reason

CONNECT_TIMEOUT = 1.0
REFUSALS = 50
"""As many attempts in a row, 20 ms apart: the head listens before it says where, so one that refuses is no more."""


class Heard(NamedTuple):
    """A verdict from elsewhere. `binding`: the head has decided; otherwise it is to be weighed."""

    verdict: Verdict
    binding: bool = False


class Alone:
    """The only node: everybody is here and nobody waits."""

    def __init__(self, own: Host) -> None:
        self._own = own

    def gather(self) -> tuple[Host, ...] | None:
        """Every node's host, in order, once all are here and the head has said so."""
        return (self._own,)

    def hear(self) -> list[Heard]:
        """What others have decided or met with since the last call."""
        return []

    def tell(self, verdict: Verdict) -> None:
        """This node's verdict is new."""

    def done(self) -> None:
        """Nothing of the run is left on this node."""

    def may_end(self, late: bool) -> bool:
        """Whether this agent may end, all of its node being gone. `late`: the others are past waiting for."""
        return True

    def beat(self, silence: float) -> list[Heard]:
        """Give a sign of life; the nodes that gave none for `silence` seconds are lost."""
        return []

    def forgive(self) -> None:
        """We did not run for a while ourselves: nobody's silence until now counts."""

    def absent(self) -> str:
        """Who is missing, in words."""
        return "nobody"

    def close(self, verdict: Verdict | None) -> None:
        """The last thing that this agent does with the others."""

    @property
    def impatient(self) -> bool:
        """Whether `gather` is to be called again within milliseconds."""
        return False


class AsHead(Alone):
    def __init__(self, own: Host, head: Head, nodes: int, selector: selectors.BaseSelector) -> None:
        super().__init__(own)
        assert head.listener is not None
        self._channel = HeadChannel(head.listener, head.rendezvous.token, nodes, selector)
        self._nodes = nodes
        self._started = False
        self._done: set[int] = set()
        self._verdict: Verdict | None = None

    def gather(self) -> tuple[Host, ...] | None:
        others = self._channel.hosts
        if len(others) < self._nodes - 1:
            return None
        hosts = (self._own, *(Host(*others[node_rank]) for node_rank in sorted(others)))
        self._started = True
        self._channel.send("start", hosts=hosts)
        return hosts

    def hear(self) -> list[Heard]:
        found = (self._hear(news.node_rank, news.message) for news in self._channel.take())
        return [heard for heard in found if heard is not None]

    def _hear(self, node_rank: int, message: dict[str, Any]) -> Heard | None:
        kind = message["kind"]
        if kind == "verdict":
            return Heard(Verdict.of(message))
        if kind == "done":
            self._done.add(node_rank)
        elif kind == HELLO and self._verdict is not None:
            self._channel.send_to(node_rank, "verdict", **self._verdict.fields())
        elif kind == GONE and node_rank not in self._done:
            self._done.add(node_rank)
            return _lost(NODE_LOST, node_rank, "its agent is gone (connection lost)")
        return None

    def tell(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self._channel.send("verdict", **verdict.fields())

    def may_end(self, late: bool) -> bool:
        """Those who never came are not waited for: they will find nobody here."""
        expected = range(1, self._nodes) if self._started else self._channel.hosts
        return late or self._done.issuperset(expected)

    def beat(self, silence: float) -> list[Heard]:
        self._channel.send("ping")
        silent = self._channel.silent(silence)
        for node_rank in silent:
            self._channel.drop(node_rank)
            self._done.add(node_rank)
        what = "its agent has not been heard of for %g s" % silence
        return [_lost(NODE_LOST, node_rank, what) for node_rank in silent]

    def forgive(self) -> None:
        self._channel.forgive()

    def absent(self) -> str:
        missing = [str(rank) for rank in range(1, self._nodes) if rank not in self._channel.hosts]
        return "%d of %d nodes did not come up: %s" % (len(missing), self._nodes, ", ".join(missing))

    def close(self, verdict: Verdict | None) -> None:
        self._channel.send("end", verdict=verdict.fields() if verdict else None)
        self._channel.close()


class AsMember(Alone):
    def __init__(self, own: Host, node_rank: int, rendezvous: Rendezvous, selector: selectors.BaseSelector) -> None:
        super().__init__(own)
        self._node_rank = node_rank
        self._token = rendezvous.token
        self._address = (rendezvous.address, rendezvous.control_port)
        self._channel = MemberChannel(self._address, selector)
        self._hosts: tuple[Host, ...] | None = None
        self._ended = False
        self._head_gone = False
        self._refusals = 0

    @property
    def impatient(self) -> bool:
        return not self._channel.connected and not self._head_gone

    def gather(self) -> tuple[Host, ...] | None:
        if self.impatient:
            self._connect()
        return self._hosts

    def _connect(self) -> None:
        try:
            connected = self._channel.connect(CONNECT_TIMEOUT)
        except ConnectionRefusedError:
            self._refusals += 1
            return
        self._refusals = 0
        if connected:
            name, cores = self._own
            self._channel.send(HELLO, node_rank=self._node_rank, token=self._token, host=name, cores=cores)

    def hear(self) -> list[Heard]:
        if self._refusals > REFUSALS and not self._head_gone:
            self._head_gone = True
            return [_lost(HEAD_LOST, 0, "the head's agent is gone (connection refused)")]
        found = (self._hear(message) for message in self._channel.take())
        return [heard for heard in found if heard is not None]

    def _hear(self, message: dict[str, Any]) -> Heard | None:
        kind = message["kind"]
        if kind == "start":
            self._hosts = tuple(Host(*host) for host in message["hosts"])
        elif kind == "verdict":
            return Heard(Verdict.of(message), binding=True)
        elif kind == "end":
            self._ended = True
            return Heard(Verdict.of(message["verdict"]), binding=True) if message["verdict"] else None
        elif kind == GONE:
            self._head_gone = True
            if not self._ended:
                return _lost(HEAD_LOST, 0, "the head's agent is gone (connection lost)")
        return None

    def tell(self, verdict: Verdict) -> None:
        self._channel.send("verdict", **verdict.fields())

    def done(self) -> None:
        self._channel.send("done")

    def may_end(self, late: bool) -> bool:
        return late or self._ended or not self._channel.connected

    def beat(self, silence: float) -> list[Heard]:
        self._channel.send("ping")
        if not self._channel.silent(silence):
            return []
        self._channel.close()
        self._head_gone = True
        return [_lost(HEAD_LOST, 0, "the head's agent has not been heard of for %g s" % silence)]

    def forgive(self) -> None:
        self._channel.forgive()

    def absent(self) -> str:
        return "node %d could not join the head at %s:%d" % (self._node_rank, *self._address)

    def close(self, verdict: Verdict | None) -> None:
        self._channel.close()


def meet(
    own: Host,
    node_rank: int,
    rendezvous: Rendezvous,
    head: Head | None,
    nodes: int,
    selector: selectors.BaseSelector,
) -> Alone:
    """The other nodes as node `node_rank` sees them; the head is the one that holds `head`."""
    if nodes == 1:
        return Alone(own)
    if head is not None:
        return AsHead(own, head, nodes, selector)
    return AsMember(own, node_rank, rendezvous, selector)


def _lost(why: str, node_rank: int, what: str) -> Heard:
    message = "node %d: %s" % (node_rank, what)
    return Heard(Verdict(why, Failure(Reason.NODE_FAILURE, message, node_rank, None, 1, time.time())))
