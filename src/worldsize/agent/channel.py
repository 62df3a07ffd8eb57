"""The control channel: every agent keeps one authenticated TCP connection to the head's agent.

Files are the record, not the signal: shared file systems show news seconds late. One JSON object a line, `kind` first:
member → head   hello {node_rank, token, host, cores} · failed {failure} · done · ping
head → member   start {hosts} · stop {why, failure} · end {failure} · ping

Nothing here blocks. `Head` and `Member` turn readable sockets into messages; the supervisor decides.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from typing import Any, Callable, NamedTuple

GONE = "gone"
_MAX_LINE = 1 << 20


class Link:
    """One connection: lines in, lines out, and when it was last heard of."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = connection
        self.heard = time.monotonic()
        self.node_rank: int | None = None
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
        """The messages that have arrived; one of kind "gone" ends the list when the other side is no more."""
        self.heard = time.monotonic()
        gone = False
        try:
            while True:
                data = self.connection.recv(1 << 16)
                self._in += data
                if not data:
                    gone = True
                    break
        except BlockingIOError:
            pass
        except OSError:
            gone = True
        *lines, self._in = self._in.split(b"\n")
        messages = [message for message in map(_parse, lines) if message is not None]
        if gone or len(self._in) > _MAX_LINE:
            messages.append({"kind": GONE})
        return messages


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and isinstance(message.get("kind"), str) else None


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
        self._links: dict[int, Link] = {}
        self.expected = nodes - 1
        self.hosts: dict[int, tuple[str, int]] = {}
        self.news: list[News] = []
        selector.register(listener, selectors.EVENT_READ, self._accept)

    def complete(self) -> bool:
        return len(self.hosts) == self.expected

    def send(self, kind: str, **fields: Any) -> None:
        for link in self._links.values():
            link.send(kind, **fields)

    def take(self) -> list[News]:
        news, self.news = self.news, []
        return news

    def silent(self, seconds: float) -> list[int]:
        """The connected nodes that have not been heard of for so long."""
        before = time.monotonic() - seconds
        return [node_rank for node_rank, link in self._links.items() if link.heard < before]

    def drop(self, node_rank: int) -> None:
        link = self._links.pop(node_rank, None)
        if link is not None:
            self._close(link)

    def close(self) -> None:
        for node_rank in list(self._links):
            self.drop(node_rank)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            link = Link(connection)
            self._selector.register(connection, selectors.EVENT_READ, lambda link=link: self._read(link))

    def _read(self, link: Link) -> None:
        for message in link.receive():
            if link.node_rank is None:
                if not self._greet(link, message):
                    self._close(link)
                    return
            else:
                self.news.append(News(link.node_rank, message))
                if message["kind"] == GONE:
                    self.drop(link.node_rank)

    def _greet(self, link: Link, message: dict[str, Any]) -> bool:
        node_rank = message.get("node_rank")
        known = (
            message["kind"] == "hello"
            and message.get("token") == self._token
            and isinstance(node_rank, int)
            and 0 < node_rank <= self.expected
            and node_rank not in self._links
        )
        if known:
            link.node_rank = node_rank
            self._links[node_rank] = link
            self.hosts[node_rank] = (str(message["host"]), int(message["cores"]))
        return known

    def _close(self, link: Link) -> None:
        self._selector.unregister(link.connection)
        link.connection.close()


class MemberChannel:
    """Any other node's side. `connect` may be called again until it says True."""

    def __init__(self, address: tuple[str, int], selector: selectors.BaseSelector) -> None:
        self._address = address
        self._selector = selector
        self._link: Link | None = None
        self.news: list[dict[str, Any]] = []

    @property
    def connected(self) -> bool:
        return self._link is not None

    def connect(self, timeout: float) -> bool:
        try:
            connection = socket.create_connection(self._address, timeout)
        except OSError:
            return False
        self._link = Link(connection)
        self._selector.register(connection, selectors.EVENT_READ, self._read)
        return True

    def send(self, kind: str, **fields: Any) -> None:
        if self._link is not None:
            self._link.send(kind, **fields)

    def take(self) -> list[dict[str, Any]]:
        news, self.news = self.news, []
        return news

    def silent(self, seconds: float) -> bool:
        return self._link is not None and self._link.heard < time.monotonic() - seconds

    def _read(self) -> None:
        assert self._link is not None
        messages = self._link.receive()
        self.news.extend(messages)
        if messages and messages[-1]["kind"] == GONE:
            self.close()

    def close(self) -> None:
        if self._link is not None:
            self._selector.unregister(self._link.connection)
            self._link.connection.close()
            self._link = None


