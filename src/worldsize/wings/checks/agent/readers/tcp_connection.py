"""A TCP connection that is tried to all addresses of a host at once: where IPv6 leads nowhere, IPv4 after it would come
too late.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time

_MOST_ADDRESSES = 8
_BEGUN = frozenset((0, errno.EINPROGRESS, errno.EWOULDBLOCK))


def open_connection(host: str, port: int, seconds: float) -> None:
    """Open a connection and close it. Raises OSError with the first address's error where none answers well, of a
    timeout where none answers at all; UnicodeError for a name that is none."""
    deadline = time.monotonic() + seconds
    attempts: dict[int, socket.socket] = {}
    errors: list[int] = []
    try:
        for family, kind, protocol, _, address in _addresses(host, port):
            try:
                attempt = socket.socket(family, kind, protocol)
            except OSError as error:  # a kernel without IPv6
                errors.append(error.errno or errno.EAFNOSUPPORT)
                continue
            attempts[attempt.fileno()] = attempt
            attempt.setblocking(False)
            errors.append(attempt.connect_ex(address))
        _wait_for_one(attempts, [error for error in errors if error not in _BEGUN], deadline)
    finally:
        for attempt in attempts.values():
            attempt.close()


def _addresses(host: str, port: int) -> list[tuple[int, int, int, str, tuple[str, int]]]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[:_MOST_ADDRESSES]  # type: ignore[return-value]


def _wait_for_one(attempts: dict[int, socket.socket], errors: list[int], deadline: float) -> None:
    """Return once one is connected. Raises OSError."""
    waiting = select.poll()
    for number in attempts:
        waiting.register(number, select.POLLOUT)
    left = set(attempts)
    while left:
        ready = waiting.poll(max(0.0, deadline - time.monotonic()) * 1000)
        for number, _ in ready:
            waiting.unregister(number)
            left.discard(number)
            error = attempts[number].getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if not error and _is_connected(attempts[number]):
                return
            errors.append(error or errno.EHOSTUNREACH)
        if not ready:
            raise socket.timeout("timed out")
    number = next(iter(errors), errno.EHOSTUNREACH)
    raise OSError(number, os.strerror(number))


def _is_connected(attempt: socket.socket) -> bool:
    try:
        attempt.getpeername()
    except OSError:  # a connection that failed at once is ready, too, and its error has been told before
        return False
    return True
