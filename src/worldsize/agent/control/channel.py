"""The control channel: a connection of each agent to the head's agent, on which both sides prove their identity.

Files record a run, but are not used as signals, because a shared file system shows new contents only after seconds. The
first line of each side is its nonce. The head sends its nonce first. The member's nonce is sent together with all
messages that were waiting for it. All other lines are one JSON object each, authenticated
(agent/control/message_proof.py), with `kind` first:

member → head   `hello {node_rank, host: [name, cores, address, ports]}` · `ready {parts}` · `told {topic, text}` ·
                `ended {ranks}` · `verdict {why, failure}` · `idle` · `done` · `ping`
head → member   `welcome` · `met {greeted, sent}` · `start {hosts or packed}` · `go {parts}` · `told {topic, text}` ·
                `verdict {why, failure}` · `end {verdict}` · `ping`

Only a member's `connect` blocks. Both sides turn readable sockets into messages, which `peers` interprets.
"""

from __future__ import annotations

import errno
import selectors
import socket
import time

from worldsize.agent.control.endpoint import Endpoint, connect
from worldsize.agent.control.link import GONE, MAX_LINE, Clock, Link, encode
from worldsize.agent.control.message_proof import HEAD, MEMBER
from worldsize.agent.control.rendezvous import STRANGERS
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.plan.rank_variables import Host

HELLO, WELCOME = "hello", "welcome"
GREETING = 10.0
"""Seconds within which either side must prove its identity."""

_MAX_GREETING = 1 << 14
_AT_ONCE = 16
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 1.0


class NodeMessage(NamedTuple):
    """A message and the rank of the node that sent it."""

    node_rank: int
    message: dict[str, Any]


class HeadChannel:
    """The head's side of the channel.

    The head drops a connection that does not prove in time that it belongs to a node of the run. It drops the oldest
    unproved connection if there are too many. It handles no message of an unproved connection, and stops listening once
    all nodes have joined. The first message to a node proves that this side is the head. That message is a welcome if
    the head has nothing else to send within `patience` seconds.
    """

    def __init__(
        self,
        listener: socket.socket,
        token: str,
        nodes: int,
        selector: selectors.BaseSelector,
        clock: Clock = time.monotonic,
        patience: float = 0.0,
    ) -> None:
        self.is_within_machine = listener.family == socket.AF_UNIX
        """True if all nodes are on this machine and therefore share its clock."""
        self._patience = patience
        self._unproven: dict[int, float] = {}
        self._listener = listener
        self._token = token
        self._selector = selector
        self._nodes = nodes
        self._clock = clock
        self._strangers: dict[Link, None] = {}
        self._links: dict[int, Link] = {}
        self._news: list[NodeMessage] = []
        self._paused_until: float | None = None
        self.trouble = ""
        """The reason why the latest connection could not be accepted: a lack of descriptors or memory. "" if it was
        accepted."""
        self.hosts: dict[int, Host] = {}
        self.greeted: dict[int, float] = {}
        """The time at which the head read each node's greeting, in Unix seconds."""
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def send(self, kind: str, **fields: Any) -> None:
        """Send a message of this kind, with `fields`, from the head's agent to the agents of all connected nodes. The
        message is encoded once for all of them."""
        self._unproven.clear()
        message = encode(kind, fields)
        for link in self._links.values():
            link.send_encoded(message)

    def send_to(self, node_rank: int, kind: str, **fields: Any) -> None:
        self._unproven.pop(node_rank, None)
        if node_rank in self._links:
            self._links[node_rank].send(kind, **fields)

    def prepare_for(self, node_rank: int, kind: str, **fields: Any) -> None:
        """Queue a message of this kind for the agent of node `node_rank`. It is sent together with the next message to
        the node. Do nothing if the node is not connected."""
        if node_rank in self._links:
            self._links[node_rank].prepare(kind, **fields)

    def take(self) -> list[NodeMessage]:
        """Return the messages that the head's agent has received from the other nodes since the last call, each with
        its node's rank, including the greetings of new nodes. First handle the timeouts of connections."""
        self._handle_timeouts()
        news, self._news = self._news, []
        return news

    def silent_nodes(self, seconds: float) -> list[int]:
        """Return the ranks of the connected nodes whose agents have sent nothing to the head for `seconds`."""
        before = self._clock() - seconds
        return [node_rank for node_rank, link in self._links.items() if link.heard < before]

    def reset_silence(self) -> None:
        """Set the time at which the head last received bytes to now, for every connected node."""
        for link in self._links.values():
            link.heard = self._clock()

    def drop(self, node_rank: int) -> None:
        self._unproven.pop(node_rank, None)
        link = self._links.pop(node_rank, None)
        if link is not None:
            link.close()

    def close(self) -> None:
        self._stop_listening()
        for link in self._links.values():
            link.close()

    def _stop_listening(self) -> None:
        for link in list(self._strangers):
            self._dismiss(link)
        if self._listener.fileno() >= 0:
            if self._paused_until is None:
                self._selector.unregister(self._listener)
            self._paused_until = None
            self._listener.close()

    def _accept(self) -> None:
        """Accept a limited number of waiting connections of other agents to the head, so that ranks and nodes are
        served between two calls. Pause accepting after a lack of file descriptors or memory. Drop the oldest unproved
        connection if there are too many."""
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno in _OUT_OF_FILES:
                    self.trouble = error.strerror or str(error)
                    self._selector.unregister(self._listener)
                    self._paused_until = self._clock() + _PAUSE
                return
            self.trouble = ""
            link = Link(connection, self._token, HEAD, _MAX_GREETING, self._clock)
            self._strangers[link] = None
            link.watch(self._selector, lambda link=link: self._read_greeting(link))  # type: ignore[misc]
            if len(self._strangers) > self._nodes - 1 - len(self._links) + STRANGERS:
                oldest = next(iter(self._strangers))
                self._read_greeting(oldest)  # it may belong to a node whose greeting has arrived already
                self._dismiss(oldest)

    def _handle_timeouts(self) -> None:
        """Send a welcome to each node whose greeting was not answered for `patience` seconds. Close the unproved
        connections that sent no greeting in time, and accept connections again some time after a lack of descriptors.
        Once all nodes have joined, do not accept connections again, but stop listening."""
        now = self._clock()
        while self._unproven and now - next(iter(self._unproven.values())) >= self._patience:
            self.send_to(next(iter(self._unproven)), WELCOME)
        if len(self.hosts) == self._nodes - 1:
            self._stop_listening()
            return
        while self._strangers and now - next(iter(self._strangers)).began > GREETING:
            self._dismiss(next(iter(self._strangers)))
        if self._paused_until is not None and now >= self._paused_until:
            self._paused_until = None
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _read_greeting(self, link: Link) -> None:
        """Read the bytes that an unproved connection to the head has sent, and admit its node if they are a valid
        greeting. Do nothing for a connection that was dismissed after the selector saw its bytes. Invalid bytes close
        only their own connection."""
        if link not in self._strangers:
            return
        try:
            self._admit(link, link.receive())
        except Exception:  # noqa: BLE001  a stranger may send any bytes, and closes only its own connection
            self._dismiss(link)

    def _admit(self, link: Link, messages: list[dict[str, Any]]) -> None:
        if not messages:
            return
        hello, *rest = messages
        if not self._is_expected(hello):
            self._dismiss(link)
            return
        node_rank, host = hello["node_rank"], Host.of(hello["host"])
        del self._strangers[link]
        link.max_line = MAX_LINE
        self._links[node_rank] = link
        self.hosts[node_rank] = host
        self.greeted[node_rank] = time.time()
        link.watch(self._selector, lambda: self._queue_messages(node_rank, link.receive()))
        self._unproven[node_rank] = self._clock()
        self._queue_messages(node_rank, [hello, *rest])

    def _is_expected(self, message: dict[str, Any]) -> bool:
        node_rank = message.get("node_rank")
        return (
            message["kind"] == HELLO
            and isinstance(node_rank, int)
            and 0 < node_rank < self._nodes
            and node_rank not in self._links
        )

    def _queue_messages(self, node_rank: int, messages: list[dict[str, Any]]) -> None:
        self._news += [NodeMessage(node_rank, message) for message in messages]
        if messages and messages[-1]["kind"] == GONE:
            self.drop(node_rank)

    def _dismiss(self, link: Link) -> None:
        if link in self._strangers:
            del self._strangers[link]
            link.close()


class MemberChannel:
    """The channel's side of a node that is not the head.

    `connected` becomes true once the head has proved that it is the head. Until then the node ignores every message. It
    tries another connection if this one is closed or stays silent.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        token: str,
        selector: selectors.BaseSelector,
        clock: Clock = time.monotonic,
        max_line: int = MAX_LINE,
    ) -> None:
        self._endpoint = endpoint
        self._max_line = max_line
        self._token = token
        self._selector = selector
        self._clock = clock
        self._link: Link | None = None
        self._news: list[dict[str, Any]] = []
        self.connected = False
        self.trouble = ""

    @property
    def has_unproved_head(self) -> bool:
        """True if a connection is open whose other side has not yet proved that it is the head."""
        return self._link is not None and not self.connected

    @property
    def own_address(self) -> str:
        """The address of this node on its connection to the head; "" if there is no connection, or if it is within this
        machine."""
        if self._link is None or isinstance(self._endpoint, str):
            return ""
        return str(self._link.connection.getsockname()[0])

    def connect(self, timeout: float) -> bool:
        """Open this node's connection to the head's agent if none is open. Return whether a new connection was opened,
        on which this side must send its greeting.

        If the other side of an open connection has not proved within GREETING seconds that it is the head, the
        connection is closed, and the next call opens another. Call this only until `connected` is true. `trouble`
        contains the reason why there is no connection. Raise ConnectionRefusedError if no process listens.
        """
        if self._link is not None:
            if not self.connected and self._clock() - self._link.began > GREETING:
                self.trouble = (
                    f"the process at this address has not proved within {GREETING:g} s that it is the run's head"
                )
                self.close()
            return False
        try:
            connection = connect(self._endpoint, timeout)
        except ConnectionRefusedError:
            raise
        except OSError as error:
            self.trouble = error.strerror or str(error)
            return False
        self._link = Link(connection, self._token, MEMBER, self._max_line, self._clock)
        self._link.watch(self._selector, self._read)
        return True

    def send(self, kind: str, **fields: Any) -> None:
        if self._link is not None:
            self._link.send(kind, **fields)

    def take(self) -> list[dict[str, Any]]:
        news, self._news = self._news, []
        return news

    def is_silent(self, seconds: float) -> bool:
        return self.connected and self._link is not None and self._link.heard < self._clock() - seconds

    def reset_silence(self) -> None:
        if self._link is not None:
            self._link.heard = self._clock()

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None
            self.connected = False

    def _read(self) -> None:
        assert self._link is not None
        messages = self._link.receive()
        gone = bool(messages) and messages[-1]["kind"] == GONE
        if messages and not self.connected:
            if messages[0]["kind"] == GONE:
                self.trouble = "the process at this address closed the connection, or is not the run's head"
                self.close()
                return
            self.connected = True
        self._news += [message for message in messages if message["kind"] != WELCOME]
        if gone:
            self.close()
