"""How the nodes of a job on Azure Machine Learning learn where their head is: they share no directory, so the head
tells them over TCP what it has published in its own run directory.

A member connects and sends a nonce; the head answers with a nonce of its own and one line: an HMAC, and rendezvous.json
with its token hidden by a pad that only who has the run's key can make. So strangers who connect learn no more than two
ports, and an answer of theirs does not fit.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import errno
import hmac
import json
import os
import socket
import threading
import time
from hashlib import sha256

from worldsize.agent.control.rendezvous import Rendezvous, read_rendezvous
from worldsize.common.json_values import PARSE_ERRORS, tuple_of
from worldsize.plan.run_paths import RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_NONCE = 32
_MAC = 64
"""Characters of a nonce and of an HMAC, hexadecimal."""

_LONGEST = 4096
_PATIENCE = 5.0
"""Seconds that one connection may take."""

_AT_ONCE = 128
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0


class HeadExchange:
    """Answers the other nodes, in threads, from when the head has published until `close`. It listens at `address`; at
    all addresses where that is none of this machine's. OSError where the port is taken."""

    def __init__(self, paths: RunPaths, address: str, port: int, key: bytes) -> None:
        self._paths = paths
        self._key = key
        self._room = threading.Semaphore(_AT_ONCE)
        self._closed = threading.Event()
        try:
            self._listener = socket.create_server((address, port), backlog=_AT_ONCE)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
            self._listener = socket.create_server(("", port), backlog=_AT_ONCE)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="worldsize head exchange", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed.wait(0.1):  # else there are too many open files, for now
                    return
                continue
            if not self._room.acquire(blocking=False):
                connection.close()  # who is turned away tries again
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(_PATIENCE)
                asked = _read_line(connection)
                found = read_rendezvous(self._paths)
                if found is not None and _is_nonce(asked):
                    connection.sendall(_answer_line(found, self._key, asked))
        except OSError:
            pass  # the member tries again
        finally:
            self._room.release()


def fetch_rendezvous(
    address: str,
    port: int,
    key: bytes,
    timeout: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Rendezvous | None:
    """What the head has published, as it says at this address; None where it has not said it within `timeout`
    seconds. Whoever else answers there is not believed."""
    deadline = clock() + timeout
    pause = _FIRST_PAUSE
    while True:
        found = _ask(address, port, key)
        if found is not None or clock() > deadline:
            return found
        sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def _ask(address: str, port: int, key: bytes) -> Rendezvous | None:
    own = os.urandom(_NONCE // 2).hex().encode()
    try:
        with socket.create_connection((address, port), _PATIENCE) as connection:
            connection.settimeout(_PATIENCE)
            connection.sendall(own + b"\n")
            line = _read_line(connection)
    except OSError:
        return None
    return _read_answer(line, key, own)


def _read_line(connection: socket.socket) -> bytes:
    """The first line; what there is of it where the other side ends, or says too much."""
    line, deadline = b"", time.monotonic() + _PATIENCE
    while b"\n" not in line and len(line) < _LONGEST and time.monotonic() < deadline:
        more = connection.recv(_LONGEST)
        if not more:
            break
        line += more
    return line.partition(b"\n")[0]


def _answer_line(found: Rendezvous, key: bytes, asked: bytes) -> bytes:
    own = os.urandom(_NONCE // 2).hex().encode()
    nonces = asked + own
    hidden = _crossed(bytes.fromhex(found.token), _mac(key, b"pad" + nonces)).hex()
    text = json.dumps(found._replace(token=hidden)._asdict(), separators=(",", ":")).encode()
    return own + _mac(key, nonces + text).hex().encode() + text + b"\n"


def _read_answer(line: bytes, key: bytes, asked: bytes) -> Rendezvous | None:
    own, proof, text = line[:_NONCE], line[_NONCE : _NONCE + _MAC], line[_NONCE + _MAC :]
    nonces = asked + own
    if not _is_nonce(own) or not hmac.compare_digest(_mac(key, nonces + text).hex().encode(), proof):
        return None
    try:
        found: Rendezvous = tuple_of(Rendezvous, json.loads(text))
        token = _crossed(bytes.fromhex(found.token), _mac(key, b"pad" + nonces)).hex()
    except PARSE_ERRORS:
        return None
    return found._replace(token=token)


def _is_nonce(text: bytes) -> bool:
    return len(text) == _NONCE and not text.strip(b"0123456789abcdef")


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, sha256).digest()


def _crossed(text: bytes, pad: bytes) -> bytes:
    return bytes(each ^ other for each, other in zip(text, pad))
