"""The endpoint at which the head's agent listens: an address and a port, or, for virtual nodes, a socket that only this
user can open.

The path of a socket may have at most 107 bytes, and the path of a run's directory is often longer. The directory is
therefore named by a file descriptor.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from worldsize.common.named_tuple import TypeAlias

Endpoint: TypeAlias = "str | tuple[str, int]"
"""The path of a socket, or an address and a port."""


def listen(path: str, backlog: int) -> socket.socket:
    """Create a Unix-domain socket at `path` that only this user can open, and return it, listening. Raise OSError if no
    socket can be created."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listener.fileno(), 0o600)
        _use_descriptor(path, listener.bind)
        listener.listen(backlog)
    except BaseException:  # no other code closes the socket after an exception
        listener.close()
        raise
    return listener


def connect(endpoint: Endpoint, timeout: float) -> socket.socket:
    """Open a connection to the head's agent at `endpoint`, a socket's path or an address and a port, within `timeout`
    seconds, and return the socket. Raise ConnectionRefusedError if no process listens, OSError for other failures."""
    if not isinstance(endpoint, str):
        # As bytes: Python encodes a str as an international name, and loading the tables for that takes 3 ms.
        host, port = endpoint
        return socket.create_connection((host.encode(), port), timeout)  # type: ignore[arg-type]
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        _use_descriptor(endpoint, connection.connect)
    except BaseException as error:  # no other code closes the socket after an exception
        connection.close()
        if isinstance(error, FileNotFoundError):
            raise ConnectionRefusedError(*error.args) from None
        raise
    return connection


def _use_descriptor(path: str, use: Callable[[str], object]) -> None:
    """Call `use` with a short name for the socket at `path`, which may exceed the 107 bytes of a socket's path. The
    short name contains a file descriptor, open during the call, instead of the directory."""
    parent, name = os.path.split(path)
    directory = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{directory}/{name}")
    finally:
        os.close(directory)


def endpoint_text(endpoint: Endpoint) -> str:
    return endpoint if isinstance(endpoint, str) else "{}:{}".format(*endpoint)
