"""Names of nodes by which other launchers can distinguish them.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence

_OF_ADDRESS = frozenset("0123456789.")


def node_names(hosts: Sequence[str]) -> tuple[str, ...]:
    """Return one name for each node, all different, from the nodes' `hosts`: each host's own name, as `short_names`
    returns it. Virtual nodes share one host. Each of them except the first gets a loopback address, which needs no
    resolver."""
    names = short_names(hosts)
    first: dict[str, int] = {}
    return tuple(
        name if first.setdefault(name, node_rank) == node_rank else _loopback_address(node_rank + 1)
        for node_rank, name in enumerate(names)
    )


def short_names(hosts: Sequence[str]) -> list[str]:
    """Return the host names without their domains, if they are still different; otherwise the full names. Addresses
    stay as they are."""
    short = [_short_name(name) for name in hosts]
    return short if len(set(short)) == len(set(hosts)) else list(hosts)


def _short_name(name: str) -> str:
    return name if set(name) <= _OF_ADDRESS else name.partition(".")[0]


def _loopback_address(number: int) -> str:
    return f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
