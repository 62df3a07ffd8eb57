"""Measurement of whether the nodes see each other's new files in the run's directory, how soon, and how fast this node
writes there.

Each node writes a file whose content follows from its name, and reports it over a connection to its readers. They look
for the file only then. A network file system can remember a look for a file that does not exist yet, and would show the
file later than other new files. Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.atomic_files import read_file, try_unlink
from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.measure import listener
from worldsize.wings.checks.agent.node_context import NodeContext

KIND = "share"
VISIBLE_WITHIN = 3.0
"""The time limit in seconds for a file to become visible after it has been reported."""

WRITTEN_WITHIN = 12.0
"""Seconds that a file may take to be written before its readers give up."""

MEASURED_BYTES = 1 << 20
"""The minimum size of a file whose rate is meaningful."""

_PAUSE = 0.02


def run(context: NodeContext, order: Mapping[str, Any]) -> dict[str, Any]:
    """Test the run's directory from this node: write the node's own file there, read those of the nodes in
    `order["read"]`, and remove the own file.

    The order contains `nonce`, which is part of the names of this check's files; `bytes`, the length of the node's own
    file; `readers`, the number of nodes that read it; and `read`, for each node whose file is read: `rank`, `bytes`,
    and its listener's `address`, `port` and `token`. The answer contains `rate`, bytes per second with fsync, for a
    file of some MiB, or `write_error`, the reason why it was not written; and `seen`, by the ranks that it reads from:
    `delay` in seconds, or `problem` ("missing", "different", "untold").
    """
    nonce, read = order["nonce"], order["read"]
    path = _path(context.run_dir, nonce, context.node_rank)
    try:
        answer = _write(path, content(nonce, context.node_rank, order["bytes"]))
        expected = {each["rank"]: content(nonce, each["rank"], each["bytes"]) for each in read}
        others = {each["rank"]: _connection(each) for each in read}
        told = _tell(order["readers"], "write_error" not in answer)
        seen = {rank: _seen(_path(context.run_dir, nonce, rank), expected[rank], others[rank]) for rank in others}
        _wait_for_ends(told)
        return {**answer, "seen": {str(rank): each for rank, each in seen.items()}}
    finally:
        try_unlink(path)


def _path(directory: str, nonce: str, rank: int) -> str:
    return os.path.join(directory, f".check-{nonce}-{rank}")


def content(nonce: str, rank: int, length: int) -> bytes:
    """Return the `length` bytes that the node with the given `rank` writes into its file. The files of all nodes
    differ, and no file system can compress them."""
    return hashlib.shake_256(f"{nonce}-{rank}".encode()).digest(length)


def _write(path: str, data: bytes) -> dict[str, Any]:
    try:
        try_unlink(path)  # the file of a check that was killed before the run was restarted
        began = time.monotonic()
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        taken = time.monotonic() - began
    except OSError as error:
        return {"write_error": error.strerror or str(error)}
    return {"rate": len(data) / max(taken, 1e-9)} if len(data) >= MEASURED_BYTES else {}


def _connection(peer: Mapping[str, Any]) -> socket.socket | None:
    try:
        return listener.connect(peer["address"], peer["port"], peer["token"], KIND, WRITTEN_WITHIN)
    except OSError:
        return None  # the answer reports "untold"; another stage reports closed ports


def _tell(readers: int, written: bool) -> list[socket.socket]:
    """Report to each of the `readers` other nodes that read this node's file whether it has been written. Return the
    connections to them."""
    deadline = time.monotonic() + WRITTEN_WITHIN
    told = []
    for _ in range(readers):
        try:
            reader = listener.take(KIND, max(deadline - time.monotonic(), 0.0))
            told.append(reader)
            reader.sendall(b"+" if written else b"-")
        except OSError:  # a reader that is late, or gone: its own answer reports what it saw
            continue
    return told


def _wait_for_ends(told: Sequence[socket.socket]) -> None:
    """Wait until the nodes at the connections `told` have read this node's file, or until the time in which they could
    have seen it has passed. Close the connections."""
    deadline = time.monotonic() + VISIBLE_WITHIN + 2.0
    for reader in told:
        try:
            reader.settimeout(max(deadline - time.monotonic(), 0.01))
            reader.recv(1)
        except OSError:
            pass  # the reader has not ended: it then reports a missing file
        reader.close()


def _seen(path: str, expected: bytes, other: socket.socket | None) -> dict[str, Any]:
    if other is None:
        found = look(path, expected)
        return found if "delay" in found else {"problem": "untold"}
    try:
        return look(path, expected) if _is_told(other) else {"problem": "untold"}
    finally:
        other.close()


def _is_told(other: socket.socket) -> bool:
    try:
        other.settimeout(WRITTEN_WITHIN)
        return other.recv(1) == b"+"
    except OSError:
        return False  # the other node is late, or has ended


def look(
    path: str,
    expected: bytes,
    now: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Look for another node's file at `path` until it exists with the `expected` content, at most VISIBLE_WITHIN
    seconds. Return the `delay` until the successful look began, or the `problem`. A look that takes long on a busy
    machine does not count as a delay."""
    began = looked = now()
    while True:
        problem = _problem(path, expected)
        if not problem:
            return {"delay": looked - began}
        if looked - began > VISIBLE_WITHIN:
            return {"problem": problem}
        sleep(_PAUSE)
        looked = now()


def _problem(path: str, expected: bytes) -> str:
    try:
        return "" if read_file(path, len(expected) + 1) == expected else "different"
    except OSError:
        return "missing"  # not yet, or a handle that the file server does not know any more
