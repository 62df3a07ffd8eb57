"""A loopback address that no other double of this user has."""

from __future__ import annotations

import fcntl
import os
import tempfile
from typing import IO

NETWORK = "127.77"
SLOTS = 254
FIRST_NODE = 10
MOST_NODES = 240


def take_slot() -> tuple[int, IO[bytes]]:
    """A number from 1 to 254, and the file whose lock holds it: it is free again when that is closed.

    Raises OSError if all are taken.
    """
    folder = os.path.join(tempfile.gettempdir(), "azureml-double-%d" % os.getuid())
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for number in range(1, SLOTS + 1):
        file = open(os.path.join(folder, str(number)), "wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            continue
        return number, file
    raise OSError("all %d addresses of doubles are in use; their locks are in %s" % (SLOTS, folder))


def service_address(slot: int) -> str:
    return "%s.%d.1" % (NETWORK, slot)


def node_address(slot: int, node: int) -> str:
    """That of node 0, 1, … of the double."""
    return "%s.%d.%d" % (NETWORK, slot, FIRST_NODE + node)


def domain(slot: int) -> str:
    """A domain whose every name is the service's address, for clients with the resolver (`resolver/`)."""
    return "%s.azureml-double.test" % service_address(slot).replace(".", "-")
