"""A TCP connection to a host that tries all its addresses at once. If IPv6 does not work, trying IPv4 afterwards would
come too late.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import errno
import os
import select
import socket
import time
from contextlib import ExitStack

_MOST = 8
_BEGUN = frozenset((0, errno.EINPROGRESS, errno.EWOULDBLOCK))


def open_connection(host: str, port: int, seconds: float) -> None:
    """Test whether a TCP connection to the host can be opened within `seconds`: connect to all its addresses (at most
    eight) at once, and close the connections again. Raise OSError with the first error if no address accepts the
    connection. Raise socket.timeout, an OSError, if an address does not answer in time. Raise UnicodeError if the name
    is invalid."""
    deadline = time.monotonic() + seconds
    left: list[socket.socket] = []
    errors: list[int] = []
    with ExitStack() as opened:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[:_MOST]:
            try:
                attempt = opened.enter_context(socket.socket(family, kind, protocol))
            except OSError as error:  # a kernel without IPv6
                errors.append(error.errno or errno.EAFNOSUPPORT)
                continue
            attempt.setblocking(False)
            code = attempt.connect_ex(address)
            if code in _BEGUN:
                left.append(attempt)
            else:
                errors.append(code)
        while left:
            ready = select.select([], left, [], max(0.0, deadline - time.monotonic()))[1]
            if not ready:
                raise socket.timeout("timed out")
            found = [each.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for each in ready]
            if not all(found):
                return
            errors += found
            left = [each for each in left if each not in ready]
    number = next(iter(errors), errno.EHOSTUNREACH)
    raise OSError(number, os.strerror(number))
