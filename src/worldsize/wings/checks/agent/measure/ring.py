"""Exchange of bytes around a ring of nodes over TCP, as an all-gather sends them: each node sends to the next and
receives from the previous one.

In a pair, that is both directions at once. Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.measure import listener

MAX_BYTES = 64 << 20
SECONDS = 0.5
CHUNK = 1 << 20
TIMEOUT = 6.0
"""The time limit in seconds for connecting, and for a connection that transfers nothing."""


def ring_speed(order: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Measure the TCP rates of this node in a ring of nodes: send to `order["next"]` (`address`, `port`, `token`) while
    the previous node sends to this one. Return the bytes per second `received` and `sent`, or the reason why there are
    none as `network_error`."""
    following = order["next"]
    try:
        address, port, token = following["address"], following["port"], following["token"]
        with listener.connect(address, port, token, kind, TIMEOUT) as out, listener.take(kind, TIMEOUT) as into:
            return exchange(out, into)
    except (OSError, EOFError) as error:
        return {"network_error": f"{type(error).__name__}: {error}"[:200]}


def exchange(
    out: socket.socket, into: socket.socket, most: int = MAX_BYTES, seconds: float = SECONDS
) -> dict[str, Any]:
    """Send at most `most` bytes through the connection `out` for at most `seconds` seconds, and receive from the
    connection `into` until its end. Return the rates `received` and `sent`, in bytes per second. Raise OSError; raise
    EOFError if almost nothing was received."""
    out.settimeout(TIMEOUT)
    into.settimeout(TIMEOUT)
    sent: list[float | OSError] = []
    sender = threading.Thread(target=lambda: sent.append(_send(out, most, seconds)), daemon=True)
    sender.start()
    received = _receive(into)
    sender.join(2 * TIMEOUT)
    if not sent or isinstance(sent[0], OSError):
        raise sent[0] if sent else TimeoutError("sending did not end")  # type: ignore[misc]
    return {"received": received, "sent": sent[0]}


def _send(out: socket.socket, most: int, seconds: float) -> float | OSError:
    """Send data through `out` and return the rate, in bytes per second, until the other side has received all of it.
    The other side closes its own direction last, so the end of that shows that it is complete. Return the error if
    sending fails."""
    data, done, began = memoryview(bytes(CHUNK)), 0, time.monotonic()
    try:
        while done < most and time.monotonic() - began < seconds:
            done += out.send(data[: most - done])
        out.shutdown(socket.SHUT_WR)
        out.recv(1)
    except OSError as error:
        return error
    return done / max(time.monotonic() - began, 1e-9)


def _receive(into: socket.socket) -> float:
    """Receive data from `into` and return the rate, in bytes per second, from the first byte to the end of the stream.
    Close `into`, which shows the sender that all data has arrived. Raise EOFError if almost nothing was received."""
    buffer = bytearray(CHUNK)
    first = into.recv_into(buffer)
    began, done = time.monotonic(), 0
    while first:
        count = into.recv_into(buffer)
        if not count:
            break
        done += count
    into.close()
    if not done:
        raise EOFError("the other node sent almost no data")
    return done / max(time.monotonic() - began, 1e-9)
