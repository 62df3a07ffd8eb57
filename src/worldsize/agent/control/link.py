"""A connection of the control channel: it turns bytes into messages and messages into bytes
(`agent/control/channel.py`)."""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Callable

from worldsize.agent.control.message_proof import HEAD, MEMBER, Seal, is_nonce, new_nonce, text_digest
from worldsize.common.named_tuple import Any, NamedTuple, TypeAlias

Clock: TypeAlias = "Callable[[], float]"

GONE = "gone"
MAX_LINE = 1 << 20
_LONGEST_HOST = 1 << 10
"""Bytes of one node in the list of all nodes: a name of 64, an address of 45, and more than 100 ports."""

_AT_MOST = 1 << 16


class Message(NamedTuple):
    """A message as it is sent, to one or to many connections, and its digest."""

    text: bytes
    digest: bytes


def encode(kind: str, fields: dict[str, Any]) -> Message:
    text = json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode()
    return Message(text, text_digest(text))


def longest_line(nodes: int) -> int:
    """Return the maximum number of bytes of a line that the head of a run with this number of nodes sends, since a line
    may list all nodes."""
    return MAX_LINE + nodes * _LONGEST_HOST


class Link:
    """A connection of the control channel. It turns bytes into messages and messages into bytes, and records the time
    at which bytes last arrived. `role` is the role of this side.

    Bytes that do not fit into the socket's buffer are sent when it has room again, if the link is watched; otherwise
    they are sent with the next message.
    """

    def __init__(
        self,
        connection: socket.socket,
        token: str,
        role: bytes,
        max_line: int = MAX_LINE,
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
        self._unsealed: list[Message] = []
        self._selector: selectors.BaseSelector | None = None
        self._read: Callable[[], None] | None = None
        self._is_full = False
        self._in = b""
        self._out = b""
        if role == HEAD:
            self._send_nonce()
            self.flush()

    def _send_nonce(self) -> None:
        self._out += self._nonce + b"\n"

    def watch(self, selector: selectors.BaseSelector, read: Callable[[], None]) -> None:
        """Register `read` with `selector`, which calls `read` whenever this connection has received bytes. `read`
        replaces the function that was registered before. Send the bytes that are still queued."""
        if self._selector is None:
            selector.register(self.connection, selectors.EVENT_READ, read)
        else:
            self._is_full = False
            selector.modify(self.connection, selectors.EVENT_READ, read)
        self._selector, self._read = selector, read
        self.flush()

    def close(self) -> None:
        if self._selector is not None:
            self._selector.unregister(self.connection)
            self._selector = self._read = None
        self.connection.close()

    def send(self, kind: str, **fields: Any) -> None:
        """Send a message of this kind, with `fields`, over this connection. It is queued until the nonce of the other
        side has arrived."""
        self.send_encoded(encode(kind, fields))

    def prepare(self, kind: str, **fields: Any) -> None:
        """Queue a message of this kind, with `fields`. It is sent together with the next message over this
        connection."""
        self._unsealed.append(encode(kind, fields))

    def send_encoded(self, message: Message) -> None:
        self._unsealed.append(message)
        self._send_unsealed()

    def _send_unsealed(self) -> None:
        if self._seal is not None:
            self._out += b"".join(self._seal.seal(*message) + b"\n" for message in self._unsealed)
            self._unsealed.clear()
            self.flush()

    def flush(self) -> None:
        """Send as many of the queued bytes as the connection's socket accepts now, without waiting. A dead connection
        is not detected here, but when it is read."""
        full = False
        try:
            while self._out:
                self._out = self._out[self.connection.send(self._out) :]
        except BlockingIOError:
            full = True
        except OSError:
            pass
        if full != self._is_full:
            self._wait_for_room(full)

    def _wait_for_room(self, full: bool) -> None:
        """Register with the selector when to continue sending: with `full`, also once the connection's socket has room
        for more bytes; otherwise only when bytes arrive."""
        if self._selector is not None and self._read is not None:
            self._is_full = full
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if full else 0)
            self._selector.modify(self.connection, events, self._go_on if full else self._read)

    def _go_on(self) -> None:
        self.flush()
        if self._read is not None:
            self._read()

    def receive(self) -> list[dict[str, Any]]:
        """Read the bytes that have arrived over this connection, and return the complete messages in them as
        dictionaries. A message of kind "gone" ends the list if the other side has closed the connection, cannot prove
        its identity, or sends invalid data."""
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
        """Read the bytes that have arrived over this connection into the buffer, without waiting. Return whether the
        other side has closed the connection."""
        try:
            while len(self._in) <= self.max_line:
                data = self.connection.recv(_AT_MOST)
                if not data:
                    return True
                self.heard = self._clock()
                self._in += data
                if len(data) < _AT_MOST:
                    return False  # the selector reports when there is more
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
