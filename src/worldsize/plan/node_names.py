"""Names of nodes that other launchers can tell apart.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Sequence

_OF_ADDRESS = frozenset("0123456789.")


def node_names(hosts: Sequence[str]) -> tuple[str, ...]:
    """Return all different: each host's own, as `short_names` has it. Virtual nodes share one host: each beside the
    first gets an address of the loopback, which no resolver is asked for."""
    names = short_names(hosts)
    first: dict[str, int] = {}
    return tuple(
        name if first.setdefault(name, node_rank) == node_rank else _loopback_address(node_rank + 1)
        for node_rank, name in enumerate(names)
    )


def short_names(hosts: Sequence[str]) -> list[str]:
    """Without their domains, where that is enough to tell them apart."""
    short = [_short_name(name) for name in hosts]
    return short if len(set(short)) == len(set(hosts)) else list(hosts)


def _short_name(name: str) -> str:
    return name if set(name) <= _OF_ADDRESS else name.partition(".")[0]


def _loopback_address(number: int) -> str:
    return f"127.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
