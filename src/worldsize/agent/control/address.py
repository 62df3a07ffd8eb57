"""The address under which other nodes reach this one."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

from worldsize.errors import RendezvousError

ADDRESS = "WORLDSIZE_ADDRESS"
"""The environment variable in which a node may name its address, if neither its host name nor its default route leads
to it."""

_TEST_NET_ADDRESS = "192.0.2.1"
"""An address that is reserved for documentation: no such host exists, and nothing is sent to it."""


def own_address() -> str:
    """Return the IPv4 address of this host that other nodes can connect to: the first that its host name resolves to,
    or else the address of its default route.

    Raise RendezvousError if only the loopback address is known, because the other nodes could not reach a head there.
    """
    for address in _candidates():
        if not address.startswith(("127.", "0.")):
            return address
    raise RendezvousError(
        "no address of this host is known that other nodes could reach",
        socket.gethostname(),
        "set it with --address or WORLDSIZE_ADDRESS, or make the host's name resolve to it (`getent ahosts "
        "$(hostname)`)",
    )


def _candidates() -> Iterator[str]:
    name = os.fsencode(socket.gethostname())  # as bytes: for a str Python first loads its codec for international names
    try:
        for entry in socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM):
            yield str(entry[4][0])
    except OSError:
        pass  # the name does not resolve
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((_TEST_NET_ADDRESS, 9))
            yield str(probe.getsockname()[0])
        except OSError:
            pass  # no default route
