"""Where the head's agent listens: at an address, or, for virtual nodes, at a socket that only this user can open.

A socket's path may have 107 bytes, and a run's directory often has more: so the path names the directory by a
descriptor.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

from worldsize.common.named_tuple import TypeAlias

Endpoint: TypeAlias = "str | tuple[str, int]"
"""The path of a socket, or an address and a port."""


def listen(path: str, backlog: int) -> socket.socket:
    """Listen at the socket `path`, which only this user can open. Raises OSError where no socket can be made."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        os.fchmod(listener.fileno(), 0o600)
        _use_descriptor(path, listener.bind)
        listener.listen(backlog)
    except BaseException:  # no matter what ends this, nobody else closes the socket
        listener.close()
        raise
    return listener


def connect(endpoint: Endpoint, timeout: float) -> socket.socket:
    """Open a connection to `endpoint`. Raises ConnectionRefusedError where no process listens, else OSError."""
    if not isinstance(endpoint, str):
        # As bytes: Python encodes a name in text as an international one, and loading the tables for that takes 3 ms.
        host, port = endpoint
        return socket.create_connection((host.encode(), port), timeout)  # type: ignore[arg-type]
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        _use_descriptor(endpoint, connection.connect)
    except BaseException as error:  # no matter what ends this, nobody else closes the socket
        connection.close()
        if isinstance(error, FileNotFoundError):
            raise ConnectionRefusedError(*error.args) from None
        raise
    return connection


def _use_descriptor(path: str, use: Callable[[str], object]) -> None:
    """Call `use` with a short name of `path`, by a descriptor of its directory."""
    parent, name = os.path.split(path)
    directory = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{directory}/{name}")
    finally:
        os.close(directory)


def endpoint_text(endpoint: Endpoint) -> str:
    return endpoint if isinstance(endpoint, str) else "{}:{}".format(*endpoint)
