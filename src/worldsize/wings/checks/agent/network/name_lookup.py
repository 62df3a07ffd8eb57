"""Lookup of the other nodes' names on this node, and whether the nodes are at the resulting addresses.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.network.greeting import ECHO, NoProof, connect
from worldsize.wings.checks.agent.network.links import CONNECT_TIMEOUT

_MOST_ADDRESSES = 3
"""The maximum number of addresses of one name at which the node is looked for."""

TEMPORARY = "no answer from the name server"


def addresses_of(host: str) -> tuple[list[str], str]:
    """Look up the name `host` on this node. Return the IP addresses that the resolver returns, in its order, and the
    error, "" without one."""
    try:
        found = socket.getaddrinfo(os.fsencode(host), None, 0, socket.SOCK_STREAM)
    except socket.gaierror as error:
        return [], TEMPORARY if error.errno == socket.EAI_AGAIN else "does not resolve"
    except (OSError, ValueError) as error:  # ValueError: an invalid name, for example with a null byte
        return [], str(error)[:80]
    return list(dict.fromkeys(_address_text(*entry[4]) for entry in found)), ""


def _address_text(address: object, port: object, flow: object = 0, scope: object = 0) -> str:
    """Return an IP address as text, with the number of its interface for a link-local one: `fe80::1%2`. The parameters
    are those of a socket address."""
    return f"{address}%{scope}" if scope else str(address)


def name_result(peer: Mapping[str, Any], timeout: float = CONNECT_TIMEOUT) -> dict[str, Any]:
    """Look up the name of another node, `peer`, on this node. Return its `rank`, the `addresses`, the `error`, and
    `reached`: True if the address that the head knows is among them, or the node answers at one of them; False if it
    answers only at the head's address; None if it does not answer there either, or is too busy, so that this cannot be
    determined."""
    addresses, error = addresses_of(peer["host"])
    reached: bool | None = None
    if peer["address"] in [address.partition("%")[0] for address in addresses]:
        reached = True
    elif addresses:
        reached = _is_there(peer, addresses, timeout)
    return {"rank": peer["rank"], "addresses": addresses[:_MOST_ADDRESSES], "error": error, "reached": reached}


def _is_there(peer: Mapping[str, Any], addresses: list[str], timeout: float) -> bool | None:
    found = [_answers(peer, address, timeout / _MOST_ADDRESSES) for address in addresses[:_MOST_ADDRESSES]]
    if any(found):
        return True
    return False if None not in found and _answers(peer, peer["address"], timeout / 2) else None


def _answers(peer: Mapping[str, Any], address: str, timeout: float) -> bool | None:
    """Return whether the listener of the node `peer` answers at `address`; None if the program there does not identify
    itself."""
    try:
        connect(address, peer["port"], peer["token"], ECHO, timeout).close()
    except NoProof:
        return None
    except OSError:
        return False
    return True
