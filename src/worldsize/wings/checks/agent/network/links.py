"""Connections of a node to others: whether they are established, how fast they answer, and the other node's time.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.network.greeting import (
    ECHO,
    ECHO_BYTES,
    TIME,
    TIME_BYTES,
    NoProof,
    WrongPeer,
    connect,
    read_exactly,
)

CONNECT_TIMEOUT = 5.0
"""The time limit in seconds for a connection. It permits two lost packets, which Linux sends again after 1 s and after
3 s."""

_ECHOES = 20
_TIMES = 5
_TIMEOUT = 2.0

_WORDS = {
    errno.ECONNREFUSED: "refused",
    errno.EHOSTUNREACH: "no route to it",
    errno.ENETUNREACH: "no route to its network",
    errno.EINVAL: "no route to it",  # a route into a black hole
    errno.ETIMEDOUT: "no answer",
    errno.EPERM: "forbidden by this node's own firewall",
    errno.EACCES: "forbidden by this node's own firewall",
}


def link_result(peer: Mapping[str, Any], port: str, timeout: float = CONNECT_TIMEOUT) -> dict[str, Any]:
    """Connect to the listener of another node, `peer`, at its `port` ("port" or "second_port"). Return the result:
    `rank`, `port`, `error`, which is "" if the node is reached, and `certain`, whether an error is the network's, not
    that of a node that is too busy."""
    try:
        connect(peer["address"], peer[port], peer["token"], ECHO, timeout).close()
        error, certain = "", True
    except OSError as failure:
        error, certain = error_words(failure, timeout), not isinstance(failure, NoProof)
    return {"rank": peer["rank"], "port": peer[port], "error": error, "certain": certain}


def error_words(error: OSError, timeout: float) -> str:
    """Return the reason why a connection to another node failed with `error`, in a few words."""
    if isinstance(error, (WrongPeer, NoProof)):
        return str(error)
    if error.errno is None:
        return f"no answer within {timeout:g} s"  # only the error of a timeout has no number
    return _WORDS.get(error.errno) or os.strerror(error.errno)


def echo_seconds(peer: Mapping[str, Any]) -> float | None:
    """Return the time in seconds that another node, `peer`, takes to answer 64 bytes over an open connection: the lower
    quartile of 20 answers, because a busy processor delays some of them. None if not all answers arrive."""
    try:
        with connect(peer["address"], peer["port"], peer["token"], ECHO, _TIMEOUT) as connection:
            taken = []
            for _ in range(_ECHOES):
                started = time.perf_counter()
                connection.sendall(b"x" * ECHO_BYTES)
                if not read_exactly(connection, ECHO_BYTES, time.monotonic() + _TIMEOUT):
                    return None
                taken.append(time.perf_counter() - started)
    except OSError:
        return None  # the row of the ports reports why
    return sorted(taken)[_ECHOES // 4]


def time_exchanges(peer: Mapping[str, Any]) -> list[tuple[int, int, int]]:
    """Query the clock of another node, `peer`, up to 5 times. Return for each query this node's time before, the peer's
    time, and this node's time after, in ns."""
    found: list[tuple[int, int, int]] = []
    try:
        with connect(peer["address"], peer["port"], peer["token"], TIME, _TIMEOUT) as connection:
            for _ in range(_TIMES):
                before = time.time_ns()
                connection.sendall(b"?")
                answer = read_exactly(connection, TIME_BYTES, time.monotonic() + _TIMEOUT)
                if not answer:
                    break
                found.append((before, int.from_bytes(answer, "big"), time.time_ns()))
    except OSError:
        pass  # the earlier results count; the row of the ports reports why
    return found
