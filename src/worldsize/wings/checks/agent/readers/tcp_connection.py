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
from contextlib import ExitStack

_MOST = 8
_BEGUN = frozenset((0, errno.EINPROGRESS, errno.EWOULDBLOCK))


def open_connection(host: str, port: int, seconds: float) -> None:
    """Open a connection and close it. Raises OSError with the first address's error where none answers well, of a
    timeout where none answers at all; UnicodeError for a name that is none."""
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
