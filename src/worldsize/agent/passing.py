"""A file that one node reads and all get: each passes on to two others what it has so far (a binary tree by node rank).

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Sequence

from worldsize.agent.copying import Stopped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Tuple

    Address = Tuple[str, int]

_CHUNK = 1 << 20
_TICK = 0.5
_CONNECT = 20.0
_MAX_LINE = 4096


class Growing:
    """A file that is being written by one thread and read by others. `fail` ends the waiting of all."""

    def __init__(self, path: str, size: int, stopped: Callable[[], bool]) -> None:
        self.path = path
        self.size = size
        self._stopped = stopped
        self._file = open(path, "w+b", buffering=0)
        self._have = 0
        self._error: OSError | None = None
        self._changed = threading.Condition()

    @property
    def have(self) -> int:
        return self._have

    def append(self, data: bytes) -> None:
        """OSError of the disk."""
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]
        with self._changed:
            self._have += len(data)
            self._changed.notify_all()

    def fail(self, error: OSError) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def read_at(self, offset: int, count: int) -> bytes:
        """Waits for at least one byte; b"" at the end. Raises OSError where it will never come, Stopped."""
        with self._changed:
            while self._have <= offset < self.size:
                if self._error is not None:
                    raise self._error
                if self._stopped():
                    raise Stopped
                self._changed.wait(_TICK)
            count = min(count, self._have - offset)
        return os.pread(self._file.fileno(), count, offset) if count > 0 else b""

    def reader(self) -> Callable[[int], bytes]:
        """From its start."""
        offset = 0

        def read(count: int) -> bytes:
            nonlocal offset
            data = self.read_at(offset, count)
            offset += len(data)
            return data

        return read

    def close(self) -> None:
        self._file.close()
        try:
            os.unlink(self.path)
        except OSError:
            pass


class Door:
    """Where other nodes of the run ask for the file.

    `answer`, which may wait, says what this node can give: the growing file, or None, so that they ask further up; and
    asked with True, the path where the asking node has it already, or "".
    """

    def __init__(self, listener: socket.socket, token: str, answer: Callable[[bool], Any]) -> None:
        self._listener = listener
        self._token = token
        self._answer = answer
        self._open = True
        self._guests: list[threading.Thread] = []
        listener.settimeout(_TICK)
        threading.Thread(target=self._receive, daemon=True).start()

    def close(self, patience: float) -> None:
        """No more guests; those that are served are waited for."""
        self._open = False
        self._listener.close()
        for guest in self._guests:
            guest.join(patience)

    def _receive(self) -> None:
        while self._open:
            try:
                connection, _ = self._listener.accept()
            except socket.timeout:
                continue
            except OSError:
                return
            guest = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._guests.append(guest)
            guest.start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.settimeout(_CONNECT)
                asked = json.loads(_line(connection))
                if asked.get("token") != self._token:
                    return
                found = self._answer(bool(asked.get("carried")))
                if not isinstance(found, Growing):
                    connection.sendall(_as_line({"at": found}))
                    return
                connection.settimeout(None)
                connection.sendall(_as_line({"size": found.size}))
                offset = int(asked["offset"])
                while True:
                    data = found.read_at(offset, _CHUNK)
                    if not data:
                        return
                    connection.sendall(data)
                    offset += len(data)
            except (OSError, ValueError, KeyError, TypeError, Stopped):
                return  # it asks somebody else


def ancestors(node_rank: int) -> list[int]:
    """Whom a node asks, in order: its parent in the tree, and so on up to the head."""
    found = []
    while node_rank:
        node_rank = (node_rank - 1) // 2
        found.append(node_rank)
    return found


def receive(growing: Growing, doors: Sequence[Address], token: str, stopped: Callable[[], bool]) -> None:
    """Fills the growing file from the first of `doors` that has it; when one breaks off, from the next, where it was.

    Raises ConnectionError where nobody has it, OSError of this node's disk, Stopped.
    """
    last = ConnectionError("no other node has it")
    for door in doors:
        try:
            connection = socket.create_connection(door, _CONNECT)
        except OSError as error:
            last = ConnectionError("%s:%d: %s" % (*door, error))
            continue
        with connection:
            try:
                connection.sendall(_as_line({"token": token, "offset": growing.have}))
                connection.settimeout(None)
                if "size" in json.loads(_line(connection)):
                    _fill(growing, connection, stopped)
            except (ValueError, ConnectionError) as error:
                last = ConnectionError("%s:%d: %s" % (*door, error))
        if growing.have >= growing.size:
            return
    raise last


def ask_carried(door: Address, token: str) -> str:
    """Where the head says that this node has the file already; "" where it has not, or nobody answers."""
    try:
        with socket.create_connection(door, _CONNECT) as connection:
            connection.settimeout(None)
            connection.sendall(_as_line({"token": token, "carried": True}))
            return str(json.loads(_line(connection)).get("at") or "")
    except (OSError, ValueError):
        return ""


def _fill(growing: Growing, connection: socket.socket, stopped: Callable[[], bool]) -> None:
    connection.settimeout(_TICK)
    while growing.have < growing.size:
        if stopped():
            raise Stopped
        try:
            data = connection.recv(_CHUNK)
        except socket.timeout:
            continue
        except OSError as error:
            raise ConnectionError(str(error)) from None
        if not data:
            return
        growing.append(data[: growing.size - growing.have])


def _line(connection: socket.socket) -> bytes:
    """What comes before the first line break; no byte more is taken. ValueError for none."""
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        if not byte or len(line) > _MAX_LINE:
            raise ValueError("no line")
        line += byte
    return line


def _as_line(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def open_listener() -> socket.socket:
    """Where this node can be asked, under any of its addresses."""
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, backlog=16, dualstack_ipv6=True)
    return socket.create_server(("", 0), backlog=16)
