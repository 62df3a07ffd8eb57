"""The control channel: every agent keeps one connection to the head's agent, on which each proves who it is.

Files are the record, not the signal: shared file systems show news seconds late. The first line of each side is its
nonce, the head's before the member's, which comes with all that it had to say; all others are one JSON object each,
sealed (agent/control/message_proof.py), `kind` first:
member → head   hello {node_rank, host: [name, cores, address, ports]} · ready · ended {ranks} ·
                verdict {why, failure} · idle · done · ping
head → member   welcome · start {hosts} · go · order {text} · verdict {why, failure} · end {verdict} · ping

Nothing here blocks but a member's `connect`. Both sides turn readable sockets into messages; `peers` gives them sense.
"""

from __future__ import annotations

import errno
import json
import selectors
import socket
import time
from collections.abc import Callable

from worldsize.agent.control.endpoint import connect
from worldsize.agent.control.message_proof import HEAD, MEMBER, Seal, is_nonce, new_nonce
from worldsize.agent.control.rendezvous import STRANGERS
from worldsize.common.named_tuple import NamedTuple
from worldsize.plan.rank_variables import Host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from worldsize.agent.control.endpoint import Endpoint

    Clock = Callable[[], float]

HELLO, WELCOME, GONE = "hello", "welcome", "gone"
GREETING = 10.0
"""Seconds that either side has to prove itself."""

_AT_MOST = 1 << 16
_MAX_LINE = 1 << 20
_MAX_GREETING = 1 << 14
_AT_ONCE = 16
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE = 1.0


class Link:
    """One connection: it turns bytes into messages and back, and knows when the last bytes came. `role` is this
    side's."""

    def __init__(
        self,
        connection: socket.socket,
        token: str,
        role: bytes,
        max_line: int = _MAX_LINE,
        clock: Clock = time.monotonic,
    ) -> None:
        connection.setblocking(False)
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.max_line = max_line
        self.began = self.heard = clock()
        self._clock = clock
        self._token = token
        self._role = role
        self._nonce = new_nonce()
        self._seal: Seal | None = None
        self._unsealed: list[bytes] = []
        self._in = b""
        self._out = b""
        if role == HEAD:
            self._send_nonce()
            self.flush()

    def _send_nonce(self) -> None:
        self._out += self._nonce + b"\n"

    def send(self, kind: str, **fields: Any) -> None:
        """What is said before the other side's nonce has come waits for it."""
        self._unsealed.append(json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode())
        self._send_unsealed()

    def _send_unsealed(self) -> None:
        if self._seal is not None:
            self._out += b"".join(self._seal.seal(text) + b"\n" for text in self._unsealed)
            self._unsealed.clear()
            self.flush()

    def flush(self) -> None:
        """Send what the socket takes now; the rest goes with the next call. A dead link shows when it is read."""
        try:
            while self._out:
                self._out = self._out[self.connection.send(self._out) :]
        except OSError:
            pass

    def receive(self) -> list[dict[str, Any]]:
        """The messages that have arrived; one of kind "gone" ends the list when the other side is no more, cannot prove
        who it is, or talks nonsense."""
        self.heard = self._clock()
        gone = self._fill()
        *lines, self._in = self._in.split(b"\n")
        messages = []
        for line in lines:
            if self._seal is None and is_nonce(line):
                self._seal = Seal(self._token, self._role, self._nonce, line)
                if self._role == MEMBER:
                    self._send_nonce()
                self._send_unsealed()
                continue
            messages.append(self._open_line(line))
            if messages[-1]["kind"] == GONE:
                return messages
        if gone or len(self._in) > self.max_line:
            messages.append({"kind": GONE})
        return messages

    def _open_line(self, line: bytes) -> dict[str, Any]:
        if self._seal is None or len(line) > self.max_line:
            return {"kind": GONE}
        text = self._seal.unseal(line)
        return {"kind": GONE} if text is None else _parse(text)

    def _fill(self) -> bool:
        """Read what has arrived; return whether the other side is gone."""
        try:
            while len(self._in) <= self.max_line:
                data = self.connection.recv(_AT_MOST)
                if not data:
                    return True
                self._in += data
                if len(data) < _AT_MOST:
                    return False  # the selector says when there is more
        except BlockingIOError:
            return False
        except OSError:
            return True
        return False


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {"kind": GONE}
    return message if isinstance(message, dict) and isinstance(message.get("kind"), str) else {"kind": GONE}


class NodeMessage(NamedTuple):
    """A message and the node that it came from."""

    node_rank: int
    message: dict[str, Any]


class HeadChannel:
    """The head's side of the channel.

    The head drops a connection that does not prove in time that it belongs to a node of the run, and drops the oldest
    unproved connection when there are too many. It acts on no message of an unproved connection, and stops listening
    once all nodes have joined. The first message to a node proves that this is the head; it is a welcome where the head
    has nothing else to send within `patience` seconds.
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
        self.hosts: dict[int, Host] = {}
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def send(self, kind: str, **fields: Any) -> None:
        self._unproven.clear()
        for link in self._links.values():
            link.send(kind, **fields)

    def send_to(self, node_rank: int, kind: str, **fields: Any) -> None:
        self._unproven.pop(node_rank, None)
        if node_rank in self._links:
            self._links[node_rank].send(kind, **fields)

    def take(self) -> list[NodeMessage]:
        """What the nodes have said since the last call, their greeting included."""
        self._handle_timeouts()
        news, self._news = self._news, []
        return news

    def silent_nodes(self, seconds: float) -> list[int]:
        """The ranks of connected nodes that have sent nothing for `seconds`."""
        before = self._clock() - seconds
        return [node_rank for node_rank, link in self._links.items() if link.heard < before]

    def reset_silence(self) -> None:
        """Count the silence of all nodes from now on only."""
        for link in self._links.values():
            link.heard = self._clock()

    def drop(self, node_rank: int) -> None:
        link = self._links.pop(node_rank, None)
        if link is not None:
            self._close(link)

    def close(self) -> None:
        self._stop_listening()
        for link in self._links.values():
            self._close(link)

    def _stop_listening(self) -> None:
        for link in list(self._strangers):
            self._dismiss(link)
        if self._listener.fileno() >= 0:
            if self._paused_until is None:
                self._selector.unregister(self._listener)
            self._paused_until = None
            self._listener.close()

    def _accept(self) -> None:
        """A few at a time, however many wait: ranks and nodes are looked after in between."""
        for _ in range(_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno in _OUT_OF_FILES:
                    self._selector.unregister(self._listener)
                    self._paused_until = self._clock() + _PAUSE
                return
            link = Link(connection, self._token, HEAD, _MAX_GREETING, self._clock)
            self._strangers[link] = None
            self._selector.register(connection, selectors.EVENT_READ, lambda link=link: self._read_greeting(link))
            if len(self._strangers) > self._nodes - 1 - len(self._links) + STRANGERS:
                oldest = next(iter(self._strangers))
                self._read_greeting(oldest)  # it may be a node's, and its greeting here already
                self._dismiss(oldest)

    def _handle_timeouts(self) -> None:
        """Nodes that have waited are welcomed, strangers who said nothing in time go, and after a lack of descriptors
        others may come again."""
        now = self._clock()
        for node_rank in [each for each, since in self._unproven.items() if now - since >= self._patience]:
            self.send_to(node_rank, WELCOME)
        if len(self.hosts) == self._nodes - 1:
            self._stop_listening()
            return
        for link in [each for each in self._strangers if now - each.began > GREETING]:
            self._dismiss(link)
        if self._paused_until is not None and now >= self._paused_until:
            self._paused_until = None
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def _read_greeting(self, link: Link) -> None:
        """Read what a stranger says. One that was dismissed since the selector saw its bytes says nothing any more, and
        whatever the bytes of one are, they end no more than its own connection."""
        if link not in self._strangers:
            return
        try:
            self._admit(link, link.receive())
        except Exception:  # noqa: BLE001 - whatever a stranger can think of
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
        link.max_line = _MAX_LINE
        self._links[node_rank] = link
        self.hosts[node_rank] = host
        self._selector.modify(
            link.connection, selectors.EVENT_READ, lambda: self._queue_messages(node_rank, link.receive())
        )
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
            self._close(link)

    def _close(self, link: Link) -> None:
        self._selector.unregister(link.connection)
        link.connection.close()


class MemberChannel:
    """Another node's side of the channel.

    `connected` becomes true once the head has proved that it is the head. Until then the node ignores every message,
    and tries another connection when this one is closed or stays silent.
    """

    def __init__(
        self, endpoint: Endpoint, token: str, selector: selectors.BaseSelector, clock: Clock = time.monotonic
    ) -> None:
        self._endpoint = endpoint
        self._token = token
        self._selector = selector
        self._clock = clock
        self._link: Link | None = None
        self._news: list[dict[str, Any]] = []
        self.connected = False
        self.trouble = ""

    @property
    def has_unproved_head(self) -> bool:
        """Whether a connection is open whose other side has not yet proved that it is the head."""
        return self._link is not None and not self.connected

    @property
    def own_address(self) -> str:
        """Where the head sees us, once there is a connection; "" for one within this machine."""
        if self._link is None or isinstance(self._endpoint, str):
            return ""
        return str(self._link.connection.getsockname()[0])

    def connect(self, timeout: float) -> bool:
        """Try to connect; return whether a new connection is open, on which this side must greet.

        May be called until `connected`; `trouble` holds the reason why there is no connection. Raises
        ConnectionRefusedError where nobody listens."""
        if self._link is not None:
            if not self.connected and self._clock() - self._link.began > GREETING:
                self.trouble = f"what answers there has not proved within {GREETING:g} s that it is the run's head"
                self.close()
            return False
        try:
            connection = connect(self._endpoint, timeout)
        except ConnectionRefusedError:
            raise
        except OSError as error:
            self.trouble = error.strerror or str(error)
            return False
        self._link = Link(connection, self._token, MEMBER, clock=self._clock)
        self._selector.register(connection, selectors.EVENT_READ, self._read)
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
            self._selector.unregister(self._link.connection)
            self._link.connection.close()
            self._link = None
            self.connected = False

    def _read(self) -> None:
        assert self._link is not None
        messages = self._link.receive()
        gone = bool(messages) and messages[-1]["kind"] == GONE
        if messages and not self.connected:
            if messages[0]["kind"] == GONE:
                self.trouble = "what answers there hung up, or is not the run's head"
                self.close()
                return
            self.connected = True
        self._news += [message for message in messages if message["kind"] != WELCOME]
        if gone:
            self.close()
