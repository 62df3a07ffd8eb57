"""The control channel: every agent keeps one authenticated TCP connection to the head's agent.

Files are the record, not the signal: shared file systems show news seconds late. One JSON object a line, `kind` first:
member → head   hello {node_rank, token, host: [name, cores, address, ports]} · ready · ended {ranks} ·
                verdict {why, failure} · idle · done · ping
head → member   start {hosts} · go · order {text} · verdict {why, failure} · end {verdict} · ping

Nothing here blocks but a member's `connect`. Both sides turn readable sockets into messages; `peers` gives them sense.
"""

from __future__ import annotations

import json
import selectors
import socket
import time

from worldsize.plan.environ import Host
from worldsize.plan.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

HELLO = "hello"
GONE = "gone"
_MAX_LINE = 1 << 20
_MAX_GREETING = 1 << 14
_MAX_STRANGERS = 64


class Link:
    """One connection: it turns bytes into messages and back, and knows when the last bytes came."""

    def __init__(self, connection: socket.socket, max_line: int = _MAX_LINE) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.max_line = max_line
        self.heard = time.monotonic()
        self._in = b""
        self._out = b""

    def send(self, kind: str, **fields: Any) -> None:
        self._out += json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode() + b"\n"
        self.flush()

    def flush(self) -> None:
        """Send what the socket takes now; the rest goes with the next call. A dead link shows when it is read."""
        try:
            while self._out:
                self._out = self._out[self.connection.send(self._out) :]
        except OSError:
            pass

    def receive(self) -> list[dict[str, Any]]:
        """The messages that have arrived; one of kind "gone" ends the list when the other side is no more, or talks
        nonsense."""
        self.heard = time.monotonic()
        gone = self._fill()
        *lines, self._in = self._in.split(b"\n")
        messages = []
        for line in lines:
            messages.append(_parse(line))
            if messages[-1]["kind"] == GONE:
                return messages
        if gone or len(self._in) > self.max_line:
            messages.append({"kind": GONE})
        return messages

    def _fill(self) -> bool:
        """Take in what there is; whether the other side is gone."""
        try:
            while len(self._in) <= _MAX_LINE:
                data = self.connection.recv(1 << 16)
                if not data:
                    return True
                self._in += data
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


class News(NamedTuple):
    """A message and the node that it came from."""

    node_rank: int
    message: dict[str, Any]


class HeadChannel:
    """The head's side. A connection that does not say the token first is dropped unheard."""

    def __init__(self, listener: socket.socket, token: str, nodes: int, selector: selectors.BaseSelector) -> None:
        self._listener = listener
        self._token = token
        self._selector = selector
        self._nodes = nodes
        self._strangers: dict[Link, None] = {}
        self._links: dict[int, Link] = {}
        self._news: list[News] = []
        self.hosts: dict[int, Host] = {}
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def send(self, kind: str, **fields: Any) -> None:
        for link in self._links.values():
            link.send(kind, **fields)

    def send_to(self, node_rank: int, kind: str, **fields: Any) -> None:
        if node_rank in self._links:
            self._links[node_rank].send(kind, **fields)

    def take(self) -> list[News]:
        """What the nodes have said since the last call, their greeting included."""
        news, self._news = self._news, []
        return news

    def silent(self, seconds: float) -> list[int]:
        """The ranks of connected nodes that have sent nothing for `seconds`."""
        before = time.monotonic() - seconds
        return [node_rank for node_rank, link in self._links.items() if link.heard < before]

    def forgive(self) -> None:
        """Whatever the silence so far, it does not count."""
        for link in self._links.values():
            link.heard = time.monotonic()

    def drop(self, node_rank: int) -> None:
        link = self._links.pop(node_rank, None)
        if link is not None:
            self._close(link)

    def close(self) -> None:
        for link in (*self._links.values(), *self._strangers):
            self._close(link)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        """Accept connections into a short queue until they have greeted, so that strangers cannot use up all file
        descriptors."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            link = Link(connection, _MAX_GREETING)
            self._strangers[link] = None
            self._selector.register(connection, selectors.EVENT_READ, lambda link=link: self._greet(link))
            if len(self._strangers) > self._nodes + _MAX_STRANGERS:
                self._dismiss(next(iter(self._strangers)))

    def _greet(self, link: Link) -> None:
        """Read from a connection that has not greeted yet. It may have been dismissed after the selector saw its bytes;
        then nothing is read. Whatever the bytes are, they can end only their own connection."""
        if link not in self._strangers:
            return
        try:
            self._introduce(link, link.receive())
        except Exception:  # noqa: BLE001 - whatever a stranger can think of
            self._dismiss(link)

    def _introduce(self, link: Link, messages: list[dict[str, Any]]) -> None:
        if not messages:
            return
        hello, *rest = messages
        if not self._knows(hello):
            self._dismiss(link)
            return
        node_rank, host = hello["node_rank"], Host.of(hello["host"])
        del self._strangers[link]
        link.max_line = _MAX_LINE
        self._links[node_rank] = link
        self.hosts[node_rank] = host
        self._selector.modify(link.connection, selectors.EVENT_READ, lambda: self._hear(node_rank, link.receive()))
        self._hear(node_rank, [hello, *rest])

    def _knows(self, message: dict[str, Any]) -> bool:
        node_rank = message.get("node_rank")
        return (
            message["kind"] == HELLO
            and message.get("token") == self._token
            and isinstance(node_rank, int)
            and 0 < node_rank < self._nodes
            and node_rank not in self._links
        )

    def _hear(self, node_rank: int, messages: list[dict[str, Any]]) -> None:
        self._news += [News(node_rank, message) for message in messages]
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
    """Any other node's side."""

    def __init__(self, address: tuple[str, int], selector: selectors.BaseSelector) -> None:
        self._address = address
        self._selector = selector
        self._link: Link | None = None
        self._news: list[dict[str, Any]] = []
        self.trouble = ""

    @property
    def connected(self) -> bool:
        return self._link is not None

    @property
    def own_address(self) -> str:
        """Where the head sees us, once we are connected."""
        return str(self._link.connection.getsockname()[0]) if self._link is not None else ""

    def connect(self, timeout: float) -> bool:
        """Try to connect, for at most `timeout` seconds; whether it succeeded. If not, `trouble` says why, and the
        caller may try again. Raises ConnectionRefusedError if nobody listens."""
        try:
            # As bytes: a name in text is taken for an international one, and loading the tables for that takes 3 ms.
            host, port = self._address
            connection = socket.create_connection((host.encode(), port), timeout)  # type: ignore[arg-type]
        except ConnectionRefusedError:
            raise
        except OSError as error:
            self.trouble = error.strerror or str(error)
            return False
        self._link = Link(connection)
        self._selector.register(connection, selectors.EVENT_READ, self._read)
        return True

    def send(self, kind: str, **fields: Any) -> None:
        if self._link is not None:
            self._link.send(kind, **fields)

    def take(self) -> list[dict[str, Any]]:
        news, self._news = self._news, []
        return news

    def silent(self, seconds: float) -> bool:
        return self._link is not None and self._link.heard < time.monotonic() - seconds

    def forgive(self) -> None:
        if self._link is not None:
            self._link.heard = time.monotonic()

    def close(self) -> None:
        if self._link is not None:
            self._selector.unregister(self._link.connection)
            self._link.connection.close()
            self._link = None

    def _read(self) -> None:
        assert self._link is not None
        messages = self._link.receive()
        self._news += messages
        if messages and messages[-1]["kind"] == GONE:
            self.close()
