"""A node's answer in the stage `reach`, as values of known types, because the data of nodes may be anything.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.checks.agent.judgement.clocks import ClockOffset
from worldsize.wings.checks.agent.judgement.groups import mapping_of, value_text
from worldsize.wings.checks.agent.judgement.numbers import number_of, positive_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypeVar

    Made = TypeVar("Made")

_MOST = 256
"""The maximum number of values that are read from a list."""


class LinkResult(NamedTuple):
    """A connection to the node with this rank. `error` is "" if it was established. `certain` is whether the result is
    certain, that is, no node was too busy to answer."""

    rank: int
    port: int
    error: str
    certain: bool


class NameResult(NamedTuple):
    """The addresses of the name of the node with this rank, and whether the node is there; None if that cannot be
    determined."""

    rank: int
    addresses: tuple[str, ...]
    error: str
    reached: bool | None


class Interface(NamedTuple):
    """A network interface: its speed in Mb/s and its MTU, None if they are not known, and the names of faster
    interfaces."""

    name: str
    kind: str
    mbps: float | None
    mtu: float | None
    faster: tuple[str, ...]


class ReachAnswer(NamedTuple):
    """The answer of one node. `own` is the meaning of its own name there. `interfaces` are the names of all that are up
    and have an address. `ifnames` are the variables that choose among them."""

    links: tuple[LinkResult, ...]
    names: tuple[NameResult, ...]
    own: NameResult | None
    latency: float | None
    clock: ClockOffset | None
    interface: Interface | None
    interfaces: tuple[str, ...]
    ifnames: Mapping[str, str]


def reach_answer_of(value: Any) -> ReachAnswer | None:
    """Return a node's answer in the stage `reach` of the node check, parsed from its JSON value; None if the node has
    not answered, or if its part failed."""
    said = mapping_of(value)
    if not said or "error" in said:
        return None
    return ReachAnswer(
        links=_all_of(said.get("links"), _link_of),
        names=_all_of(said.get("names"), _name_of),
        own=_name_of({"rank": -1, **mapping_of(said.get("own"))}) if said.get("own") else None,
        latency=positive_of(said.get("latency")),
        clock=_clock_of(said.get("clock")),
        interface=_interface_of(mapping_of(said.get("interface"))),
        interfaces=_texts(said.get("interfaces")),
        ifnames={name: value_text(text) for name, text in mapping_of(said.get("ifnames")).items()},
    )


def _all_of(values: Any, made: Callable[[Mapping[str, Any]], Made | None]) -> tuple[Made, ...]:
    found = [made(mapping_of(value)) for value in _list(values)]
    return tuple(each for each in found if each is not None)


def _list(value: Any) -> list[Any]:
    return list(value[:_MOST]) if isinstance(value, (list, tuple)) else []


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(value_text(each) for each in _list(value) if isinstance(each, str))


def _link_of(value: Mapping[str, Any]) -> LinkResult | None:
    rank, port, error = value.get("rank"), value.get("port"), value.get("error")
    if not isinstance(rank, int) or not isinstance(port, int) or not isinstance(error, str):
        return None
    return LinkResult(rank, port, value_text(error), value.get("certain") is True)


def _name_of(value: Mapping[str, Any]) -> NameResult | None:
    rank, error, reached = value.get("rank"), value.get("error"), value.get("reached")
    if not isinstance(rank, int) or not isinstance(error, str):
        return None
    known = reached if isinstance(reached, bool) else None
    return NameResult(rank, _texts(value.get("addresses")), value_text(error), known)


def _clock_of(value: Any) -> ClockOffset | None:
    numbers = [number_of(each) for each in _list(value)]
    if len(numbers) != 2 or numbers[0] is None or numbers[1] is None or numbers[1] < 0:
        return None
    return ClockOffset(numbers[0], numbers[1])


def _interface_of(value: Mapping[str, Any]) -> Interface | None:
    name, kind = value.get("name"), value.get("kind")
    if not isinstance(name, str) or not isinstance(kind, str):
        return None
    mbps, mtu = positive_of(value.get("mbps")), positive_of(value.get("mtu"))
    return Interface(value_text(name), value_text(kind), mbps, mtu, _texts(value.get("faster")))
