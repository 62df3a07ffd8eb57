"""The TCP listener of each node, by which the nodes of a check reach each other.

It listens on all addresses at two ports: one of the range from which ranks get theirs, and one that the kernel chooses,
as it does for NCCL and gloo. A client proves with the node's token and the run's token that it belongs to the check.
The listener answers with its own proof. A proof is accepted only once. Agents send each other the node's token in plain
text; the run's token is never sent over the network. Strangers can connect, and receive nothing.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Mapping

from worldsize.agent.control.ports import PortReservation
from worldsize.errors import WorldsizeError
from worldsize.wings.checks.agent.network import greeting
from worldsize.wings.checks.agent.network.greeting import ECHO, ECHO_BYTES, TIME, TIME_BYTES

STRANGERS = 64
"""The number of connections that a listener has open in addition to one for each node. If there are more, the oldest
one that has not proved itself is closed. A node proves itself at once, and so connects in spite of any number of silent
strangers."""

_IDLE = 10.0
"""Seconds after which a connection that sends nothing is closed."""

_FIRST_LINE = 5.0
"""The time limit in seconds for a connection to send its first line."""

_BACKLOG = 128

connect = greeting.connect
"""`connect(address, port, token, kind, timeout) -> socket`: a connection of this kind to the node with this token."""


class Listener:
    """A listener that is open until `close`. Its `token` and its ports are sent to the head, which passes them to other
    nodes."""

    def __init__(self, nodes: int, loopback: bool = False, now: Callable[[], int] = time.time_ns) -> None:
        self.token = os.urandom(16).hex()
        self._now = now
        self._slots = threading.BoundedSemaphore(STRANGERS + 2 + max(1, nodes))
        self._ready = threading.Condition()
        self._waiting: dict[str, list[socket.socket]] = {}
        self._nonces: set[bytes] = set()
        self._unproved: dict[socket.socket, None] = {}
        self._closed = False
        self._sockets = _open_sockets(_BACKLOG + nodes, loopback)
        self.port, self.second_port = (each.getsockname()[1] for each in self._sockets)
        for each in self._sockets:
            threading.Thread(target=self._accept, args=(each,), daemon=True).start()

    def answer(self) -> dict[str, object]:
        """Return the node's answer for the head in the stage `listen`: the listener's two ports and its token."""
        return {"port": self.port, "second_port": self.second_port, "token": self.token}

    def take(self, kind: str, timeout: float) -> socket.socket:
        """Return the next connection of the given `kind` that another node has opened to this listener. Raise
        TimeoutError if there is none within `timeout` seconds, or after `close`."""
        with self._ready:
            self._ready.wait_for(lambda: self._closed or bool(self._waiting.get(kind)), timeout)
            if not self._waiting.get(kind):
                raise TimeoutError(f"no node connected for {kind} within {timeout:g} s")
            taken = self._waiting[kind].pop(0)
        self._slots.release()
        return taken

    def close(self) -> None:
        """Close the listener's ports, and each connection that was not taken."""
        with self._ready:
            self._closed = True
            left = [each for waiting in self._waiting.values() for each in waiting]
            self._waiting.clear()
            self._ready.notify_all()
        for each in self._sockets:
            _shut(each)
        for each in left:
            each.close()

    def _accept(self, listening: socket.socket) -> None:
        while not self._closed:
            connection = self._next_connection(listening)
            if connection is None:
                continue
            if not self._has_slot():
                connection.close()
                continue
            try:
                self._begin(connection)
            except RuntimeError:  # no free thread: the client gets no answer, as from a node that is too busy
                self._forget(connection)
                connection.close()
                self._slots.release()

    def _has_slot(self) -> bool:
        """Acquire a slot for one more connection to the listener, and return whether there was one. If none is free,
        close the oldest connection that has not proved itself, and wait for its slot."""
        if self._slots.acquire(blocking=False):
            return True
        with self._ready:
            oldest = next(iter(self._unproved), None)
            if oldest is not None:
                del self._unproved[oldest]
                _shut_down(oldest)  # its thread reads the end, closes it, and releases its slot
        return self._slots.acquire(timeout=_FIRST_LINE)

    def _begin(self, connection: socket.socket) -> None:
        with self._ready:
            self._unproved[connection] = None
        threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _forget(self, connection: socket.socket) -> None:
        """Remove a connection to the listener from the unproved ones, because it has proved itself or has ended."""
        with self._ready:
            self._unproved.pop(connection, None)

    def _next_connection(self, listening: socket.socket) -> socket.socket | None:
        try:
            return listening.accept()[0]
        except OSError:
            if not self._closed:
                time.sleep(0.05)  # perhaps no free file descriptor: their holders have a time limit
            return None

    def _serve(self, connection: socket.socket) -> None:
        kept = False
        try:
            kind = greeting.accepted_kind(connection, self.token, self._is_new, _FIRST_LINE)
            self._forget(connection)
            connection.settimeout(_IDLE)
            kept = kind is not None and not self._answer_known_kind(kind, connection) and self._keep(kind, connection)
        except OSError:
            pass  # the other side is gone, or is not a node
        finally:
            if not kept:
                self._forget(connection)
                connection.close()
                self._slots.release()

    def _is_new(self, nonce: bytes) -> bool:
        with self._ready:
            new = nonce not in self._nonces
            self._nonces.add(nonce)
            return new

    def _answer_known_kind(self, kind: str, connection: socket.socket) -> bool:
        """Answer a connection of kind ECHO or TIME until the other side closes it. Return False for any other kind,
        which is kept for `take`."""
        if kind == ECHO:
            while asked := greeting.read_exactly(connection, ECHO_BYTES):
                connection.sendall(asked)
        elif kind == TIME:
            while greeting.read_exactly(connection, 1):
                connection.sendall(self._now().to_bytes(TIME_BYTES, "big"))
        return kind in (ECHO, TIME)

    def _keep(self, kind: str, connection: socket.socket) -> bool:
        with self._ready:
            if not self._closed:
                self._waiting.setdefault(kind, []).append(connection)
                self._ready.notify_all()
            return not self._closed


def _open_sockets(backlog: int, loopback: bool) -> list[socket.socket]:
    """Return the two listening sockets of a node's listener, one at a port of the ranks' range, one at a port that the
    kernel chooses. `loopback` is whether they listen on the loopback only. Raise OSError."""
    opened: list[socket.socket] = []
    try:
        for port in (_port_as_of_ranks(), 0):
            opened.append(_listening_socket(port, backlog, loopback))
    except BaseException:  # after any exception: no other code closes the sockets
        for each in opened:
            each.close()
        raise
    return opened


def _port_as_of_ranks() -> int:
    """Return a free port of the range from which ranks get their ports; 0, which means any port, if there is none."""
    try:
        return PortReservation().port
    except (WorldsizeError, OSError, ValueError):
        return 0  # the check continues with a port that the kernel chooses


def _listening_socket(port: int, backlog: int, loopback: bool) -> socket.socket:
    if loopback:
        return socket.create_server(("127.0.0.1", port), backlog=backlog)
    try:
        return socket.create_server(("::", port), family=socket.AF_INET6, backlog=backlog, dualstack_ipv6=True)
    except (OSError, ValueError):  # a kernel without IPv6, or without dual-stack sockets
        return socket.create_server(("", port), backlog=backlog)  # nosec B104  # other nodes must reach it


def _shut(listening: socket.socket) -> None:
    """Close a listening socket, and wake the thread that waits in `accept`."""
    _shut_down(listening)
    listening.close()


def _shut_down(connection: socket.socket) -> None:
    """Shut down a connection, and wake the thread that waits for data from this socket."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already, or the other side is gone


_own: Listener | None = None


def start(order: Mapping[str, object]) -> Listener:
    """Open this process's listener for the nodes of the check, or return the one that is open already. `order` contains
    the number of `nodes`, and `loopback`. Raise OSError."""
    global _own
    if _own is None:
        nodes = order.get("nodes")
        _own = Listener(nodes if isinstance(nodes, int) else 1, loopback=order.get("loopback") is True)
    return _own


def take(kind: str, timeout: float) -> socket.socket:
    """Return the next connection of the given `kind` that another node opens to this process's listener. Raise
    TimeoutError if there is none within `timeout` seconds, or if no listener is open. The caller sets the connection's
    timeout, which is 10 s, and closes it."""
    if _own is None:
        raise TimeoutError("this node has no listener")
    return _own.take(kind, timeout)


def close() -> None:
    """Close this process's listener, if it is open."""
    global _own
    if _own is not None:
        _own.close()
    _own = None
