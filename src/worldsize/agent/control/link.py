"""One connection of the control channel: bytes become messages, and messages bytes (`agent/control/channel.py`)."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable

from worldsize.agent.control.message_proof import HEAD, MEMBER, Seal, is_nonce, new_nonce
from worldsize.common.named_tuple import Any, TypeAlias

Clock: TypeAlias = "Callable[[], float]"

GONE = "gone"
MAX_LINE = 1 << 20
_AT_MOST = 1 << 16


class Link:
    """One connection: it turns bytes into messages and messages into bytes, and knows when bytes last came. `role` is
    this side's."""

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
        self._unsealed: list[bytes] = []
        self._in = b""
        self._out = b""
        if role == HEAD:
            self._send_nonce()
            self.flush()

    def _send_nonce(self) -> None:
        self._out += self._nonce + b"\n"

    def send(self, kind: str, **fields: Any) -> None:
        """Send a message; one that is sent before the other side's nonce has come waits for it."""
        self._unsealed.append(json.dumps({"kind": kind, **fields}, separators=(",", ":")).encode())
        self._send_unsealed()

    def _send_unsealed(self) -> None:
        if self._seal is not None:
            self._out += b"".join(self._seal.seal(text) + b"\n" for text in self._unsealed)
            self._unsealed.clear()
            self.flush()

    def flush(self) -> None:
        """Send what the socket takes now; the rest goes with the next call. That the connection is dead shows when it
        is read."""
        try:
            while self._out:
                self._out = self._out[self.connection.send(self._out) :]
        except OSError:  # the socket is full, or the connection dead
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
