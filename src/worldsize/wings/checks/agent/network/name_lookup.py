"""What this node takes the other nodes' names for, and whether that is where they are.

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
"""Addresses of one name at which the node is looked for."""

TEMPORARY = "no answer from the name server"


def addresses_of(host: str) -> tuple[list[str], str]:
    """Return the addresses that this node's resolver gives, in its order, and the error, "" without one."""
    try:
        found = socket.getaddrinfo(os.fsencode(host), None, 0, socket.SOCK_STREAM)
    except socket.gaierror as error:
        return [], TEMPORARY if error.errno == socket.EAI_AGAIN else "does not resolve"
    except (OSError, ValueError) as error:  # ValueError: of a name that is none, with a null byte for example
        return [], str(error)[:80]
    return list(dict.fromkeys(_address_text(*entry[4]) for entry in found)), ""


def _address_text(address: object, port: object, flow: object = 0, scope: object = 0) -> str:
    """Return the address, with the number of its interface where it is one of a link: `fe80::1%2`."""
    return f"{address}%{scope}" if scope else str(address)


def name_result(peer: Mapping[str, Any], timeout: float = CONNECT_TIMEOUT) -> dict[str, Any]:
    """What the peer's name means here: `addresses`, `error`, and `reached`: True where the address that the head knows
    is among them, or the node answers at one of them; False where it answers at the head's address alone; None where it
    does not answer there either, or is too busy, so that it cannot be told."""
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
    """Return whether the peer is at this address; None where what is there does not say."""
    try:
        connect(address, peer["port"], peer["token"], ECHO, timeout).close()
    except NoProof:
        return None
    except OSError:
        return False
    return True
