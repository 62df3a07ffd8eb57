"""The protocol by which the nodes of a job on Azure Machine Learning learn the address of their head, or that it has
ended. The nodes share no directory, so the head sends them over TCP what it has written into its own run directory.

A member connects and sends a nonce, its number and an HMAC of both. The head replies with a nonce of its own and one
line: an HMAC, and JSON encrypted with a pad that can only be computed with the run's key. Therefore other parties that
connect or listen learn nothing, and cannot forge a reply. Standard library only: travels inside agent.pyz (Python >=
3.8).
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
from worldsize.common.json_values import PARSE_ERRORS, check_fields, tuple_of
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.errors import WorldsizeError
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_exit
from worldsize.state.records import ExitRecord

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_NONCE = 32
_MAC = 64
"""Number of characters of an HMAC in hexadecimal; the line before is that of a nonce."""

_LONGEST = 64 << 10
_PORTS = 4
"""The number of ports that the head tries and members query, from the service's port on, since other processes on its
machine may use some."""

_PATIENCE = 5.0
"""Seconds that one connection may take."""

_AT_ONCE = 128
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 1.0
_WAIT_PAUSE = 0.25
_RENDEZVOUS, _EXIT = "rendezvous", "exit"


class HeadExchange:
    """The head node's TCP server, which replies to the member nodes of a run, in threads, until `close`. The reply is
    the head's rendezvous, or its exit record if the head has ended with a failure. The server listens at `address`, or
    at all addresses if this machine does not have that one, and at the first free port from `port` on. Raise OSError if
    no port is free."""

    def __init__(self, paths: RunPaths, address: str, port: int, key: bytes, nodes: int = 2) -> None:
        self._paths = paths
        self._key = key
        self._untold = set(range(1, nodes))
        self._room = threading.Semaphore(_AT_ONCE)
        self._closed = threading.Event()
        self._listener = _listen(address, port)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="worldsize head exchange", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()

    def wait_until_told(
        self,
        timeout: float,
        is_stopped: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Wait until every member node has received the head's reply, for at most `timeout` seconds, and only until
        `is_stopped()` is true."""
        deadline = clock() + timeout
        while self._untold and not is_stopped() and clock() < deadline:
            sleep(_WAIT_PAUSE)

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed.wait(0.1):  # otherwise too many files are open, temporarily
                    return
                continue
            if not self._room.acquire(blocking=False):
                connection.close()  # a rejected member tries again
                continue
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            with connection:
                connection.settimeout(_PATIENCE)
                asked = _read_line(connection)
                node_rank = _member_of(asked, self._key)
                if node_rank is not None:
                    said = self._known()
                    connection.sendall(_answer_line(said, self._key, asked[:_NONCE]))
                    if said:
                        self._untold.discard(node_rank)
        except (OSError, WorldsizeError):
            pass  # the member tries again
        finally:
            self._room.release()

    def _known(self) -> dict[str, Any]:
        """Return the reply that the head can send to members now, as a JSON object: its exit record if it failed, else
        its rendezvous; an empty object if there is neither yet."""
        ended, found = read_exit(self._paths, 0), read_rendezvous(self._paths)
        if ended is not None and ended.code:
            return {_EXIT: ended._replace(ranks=(), warnings=()).to_json()}
        return {_RENDEZVOUS: found._asdict()} if found is not None else {}


class Heard(NamedTuple):
    """The reply of a head. Both fields are None if the head knows nothing yet."""

    rendezvous: Rendezvous | None = None
    ended: ExitRecord | None = None


def ask_head(
    address: str,
    port: int,
    key: bytes,
    timeout: float,
    node_rank: int = 1,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Heard:
    """Request, as a member node, the rendezvous of the head at `address`, and repeat that until it replies. Return the
    rendezvous, or the exit record of the head if it has ended. Both are None if it has reported neither within
    `timeout` seconds. Replies from any other process are rejected."""
    deadline = clock() + timeout
    pause = _FIRST_PAUSE
    while True:
        answers = (_ask(address, each, key, node_rank) for each in _ports(port))
        heard = next((answer for answer in answers if answer is not None), Heard())
        if heard != Heard() or clock() > deadline:
            return heard
        sleep(pause)
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def _ports(first: int) -> range:
    return range(first, min(first + _PORTS, 1 << 16))


def _listen(address: str, port: int) -> socket.socket:
    for number in _ports(port):
        for each in (address, ""):
            try:
                return socket.create_server((each, number), backlog=_AT_ONCE)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    break
                if not each:
                    raise
    raise OSError(errno.EADDRINUSE, f"ports {port} to {_ports(port)[-1]} are taken")


def _ask(address: str, port: int, key: bytes, node_rank: int) -> Heard | None:
    """Send one request to the head of the run at `address` and `port`, and return its reply; None if no head that knows
    the run's key has replied."""
    own = os.urandom(_NONCE // 2).hex().encode()
    try:
        with socket.create_connection((address, port), _PATIENCE) as connection:
            connection.settimeout(_PATIENCE)
            connection.sendall(_question(own, node_rank, key) + b"\n")
            line = _read_line(connection)
    except OSError:
        return None
    return _read_answer(line, key, own)


def _read_line(connection: socket.socket) -> bytes:
    """Return the first line received on a TCP `connection`, without its line end. If the other side ends the
    connection, sends too much or takes too long, return what has arrived."""
    line, deadline = b"", time.monotonic() + _PATIENCE
    while b"\n" not in line and len(line) < _LONGEST and time.monotonic() < deadline:
        more = connection.recv(_LONGEST)
        if not more:
            break
        line += more
    return line.partition(b"\n")[0]


def _question(nonce: bytes, node_rank: int, key: bytes) -> bytes:
    told = nonce + b"%d" % node_rank
    return nonce + _mac(key, b"ask" + told).hex().encode() + told[_NONCE:]


def _member_of(line: bytes, key: bytes) -> int | None:
    """Return the rank of the member node that sent the request `line` to the head; None if the line is not
    authenticated with the run's `key`."""
    node_rank = parse_digits(line[_NONCE + _MAC :].decode("ascii", "replace"))
    if node_rank is None or not _is_nonce(line[:_NONCE]):
        return None
    return node_rank if hmac.compare_digest(line, _question(line[:_NONCE], node_rank, key)) else None


def _answer_line(said: dict[str, Any], key: bytes, asked: bytes) -> bytes:
    own = os.urandom(_NONCE // 2).hex().encode()
    nonces = asked + own
    text = _crossed(json.dumps(said, separators=(",", ":")).encode(), key, nonces).hex().encode()
    return own + _mac(key, nonces + text).hex().encode() + text + b"\n"


def _read_answer(line: bytes, key: bytes, asked: bytes) -> Heard | None:
    own, proof, text = line[:_NONCE], line[_NONCE : _NONCE + _MAC], line[_NONCE + _MAC :]
    nonces = asked + own
    if not _is_nonce(own) or not hmac.compare_digest(_mac(key, nonces + text).hex().encode(), proof):
        return None
    try:
        said = json.loads(_crossed(bytes.fromhex(text.decode("ascii")), key, nonces))
        rendezvous = tuple_of(Rendezvous, said[_RENDEZVOUS]) if _RENDEZVOUS in said else None
        return Heard(rendezvous, check_fields(tuple_of(ExitRecord, said[_EXIT])) if _EXIT in said else None)
    except PARSE_ERRORS:
        return None


def _is_nonce(text: bytes) -> bool:
    return len(text) == _NONCE and not text.strip(b"0123456789abcdef")


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.new(key, text, sha256).digest()


def _crossed(text: bytes, key: bytes, nonces: bytes) -> bytes:
    """Encrypt the bytes `text` of a reply by XOR with a pad made from the key and the nonces. The same call decrypts
    them."""
    pads = (_mac(key, b"pad%d" % number + nonces) for number in range(len(text) // sha256().digest_size + 1))
    return bytes(each ^ other for each, other in zip(text, b"".join(pads)))
