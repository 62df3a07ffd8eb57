"""The first line of a connection between two nodes of a check, and its answer. With them each side proves that it has
the token.

The line is `MAC NONCE KIND`, and the answer only a MAC. Both MACs are BLAKE2b, whose key consists of the tokens of the
run and of the node. The client sends nothing else before the answer.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import socket
import time
from _operator import _compare_digest as compare_digest  # the function that hmac exports
from collections.abc import Callable

try:
    from _blake2 import blake2b  # hashlib also loads OpenSSL, which adds 3 ms to every start
except ImportError:
    from hashlib import blake2b

ECHO = "echo"
"""The kind of connection on which each ECHO_BYTES bytes are sent back."""

TIME = "time"
"""The kind of connection on which each byte is answered by TIME_BYTES bytes: `time.time_ns()`, the highest byte
first."""

ECHO_BYTES, TIME_BYTES = 64, 8

_LONGEST = 160
_KIND_BYTES = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_.-")
_HEX = frozenset(b"0123456789abcdef")
_NONCE = 32
_MAC = 64


_token_of_run = b""


def use_token_of_run(token: str) -> None:
    """Set the run's token, of 32 characters, for the connections between nodes of a check. From now on, both sides must
    also prove that they know it."""
    global _token_of_run
    _token_of_run = token.encode()


class WrongPeer(ConnectionError):
    """An error for a peer that is not the node with this token."""


class NoProof(ConnectionError):
    """An error for a peer that has accepted the connection without proving its identity, perhaps a node that is too
    busy."""


def connect(address: str, port: int, token: str, kind: str, timeout: float) -> socket.socket:
    """Open a connection of the given `kind` to the listener of the node with the given `token`, which has proved that
    it is that node, and return it. The connection's timeout is `timeout`. Raise WrongPeer or NoProof, or another
    OSError if nothing listens, after at most `timeout` seconds."""
    deadline = time.monotonic() + timeout
    connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect((address, port))
        _prove(connection, token, kind, deadline)
        connection.settimeout(timeout)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:  # after any exception: no other code closes the socket
        connection.close()
        raise
    return connection


def _prove(connection: socket.socket, token: str, kind: str, deadline: float) -> None:
    nonce = os.urandom(_NONCE // 2).hex().encode()
    name = kind.encode()
    try:
        connection.sendall(b"%s %s %s\n" % (_mac(token, b"ask", nonce, name), nonce, name))
        answer = read_exactly(connection, _MAC, deadline)
    except OSError as error:
        raise NoProof(f"the listener at {_peer(connection)} does not respond") from error
    if not answer:
        raise NoProof(f"the listener at {_peer(connection)} closed the connection")
    if not compare_digest(answer, _mac(token, b"answer", nonce, name)):
        raise WrongPeer(f"another program than the check's answers at {_peer(connection)}")


def _peer(connection: socket.socket) -> str:
    try:
        return "{}:{}".format(*connection.getpeername()[:2])
    except OSError:
        return "the address"  # the connection is closed already


def accepted_kind(connection: socket.socket, token: str, is_new: Callable[[bytes], bool], timeout: float) -> str | None:
    """Read the first line of a connection that a listener has accepted, answer it and return the kind of connection
    that it names. Return None, without an answer, unless the line is that of a node that has the token and uses this
    nonce for the first time. Raise OSError."""
    line = _first_line(connection, time.monotonic() + timeout)
    words = line.split(b" ")
    if len(words) != 3 or not _is_nonce(words[1]) or not words[2] or not _KIND_BYTES.issuperset(words[2]):
        return None
    mac, nonce, name = words
    if not compare_digest(mac, _mac(token, b"ask", nonce, name)) or not is_new(nonce):
        return None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.sendall(_mac(token, b"answer", nonce, name))
    return name.decode()


def _is_nonce(word: bytes) -> bool:
    return len(word) == _NONCE and _HEX.issuperset(word)


def _first_line(connection: socket.socket, deadline: float) -> bytes:
    """Return the first line that the other side of a connection sends, without its end; b"" if it is too long, has no
    end, or is followed by more data."""
    line = b""
    while len(line) <= _LONGEST:
        part = _receive(connection, _LONGEST + 1 - len(line), deadline)
        line += part
        if not part or b"\n" in part:
            break
    return line[:-1] if line.endswith(b"\n") and line.count(b"\n") == 1 else b""


def read_exactly(connection: socket.socket, count: int, deadline: float | None = None) -> bytes:
    """Read exactly `count` bytes from the connection; return b"" if the other side closes it before. Raise OSError, and
    TimeoutError after `deadline`."""
    read = b""
    while len(read) < count:
        part = _receive(connection, count - len(read), deadline)
        if not part:
            return b""
        read += part
    return read


def _receive(connection: socket.socket, most: int, deadline: float | None) -> bytes:
    if deadline is not None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("timed out")
        connection.settimeout(left)
    return connection.recv(most)


def _mac(token: str, *words: bytes) -> bytes:
    key = (_token_of_run + token.encode())[:64]
    return blake2b(b" ".join(words), key=key, digest_size=_MAC // 2).hexdigest().encode()
