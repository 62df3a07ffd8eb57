"""Measurement of whether this node reaches others by their addresses and their names, how fast, by which interface, and
of its clock.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from worldsize.common.named_tuple import Any, TypeAlias
from worldsize.wings.checks.agent.judgement.clocks import best_offset
from worldsize.wings.checks.agent.network.interfaces import interface_addresses, route_facts
from worldsize.wings.checks.agent.network.links import echo_seconds, link_result, time_exchanges
from worldsize.wings.checks.agent.network.name_lookup import TEMPORARY, addresses_of, name_result
from worldsize.wings.checks.agent.network.tasks import results_of
from worldsize.wings.checks.agent.node_context import NodeContext

SECONDS = 8.5
"""The time limit in seconds for all lookups and connections together."""

IFNAMES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")

Task: TypeAlias = "Callable[[], Any]"
Peer: TypeAlias = "Mapping[str, Any]"


def run(context: NodeContext, order: Mapping[str, Any]) -> dict[str, Any]:
    """Measure how this node reaches other nodes: connections, names, latency, clock and interfaces, as the head's
    `order` requests. Return the results as JSON values in the form that `judgement/reach_answers.py` reads."""
    peers: Sequence[Peer] = order["peers"]
    links = [peer for peer in peers if peer["link"]]
    names = [peer for peer in peers if peer["name"]]
    found = {**_late(links, names), **results_of({**_link_tasks(links), **_name_tasks(context, names)}, SECONDS)}
    answer = {
        "links": [result for (kind, _), result in found.items() if kind in ("port", "second_port")],
        "names": [result for (kind, _), result in found.items() if kind == "name"],
        "own": found.get(("own", -1)),
        "interface": route_facts(context, links[0]["address"], links[0]["port"]) if links else {},
        "interfaces": sorted({name for name, _ in interface_addresses(context)})[:64],
        "ifnames": {name: context.environ[name][:200] for name in IFNAMES if context.environ.get(name)},
    }
    answer.update(_timings(order, {peer["rank"]: peer for peer in links}, found))
    return answer


def _late(links: Sequence[Peer], names: Sequence[Peer]) -> dict[tuple[str, int], Any]:
    """Return the results, by kind and the peer's rank, that count for the connections to `links` and the lookups of
    `names` that have no answer in time."""
    late = f"no answer within {SECONDS:g} s"
    found: dict[tuple[str, int], Any] = {
        (port, peer["rank"]): {"rank": peer["rank"], "port": peer[port], "error": late, "certain": False}
        for peer in links
        for port in ("port", "second_port")
    }
    for peer in names:
        found["name", peer["rank"]] = {"rank": peer["rank"], "addresses": [], "error": TEMPORARY, "reached": None}
    return found


def _link_tasks(links: Sequence[Peer]) -> dict[tuple[str, int], Task]:
    return {
        (port, peer["rank"]): partial(link_result, peer, port) for peer in links for port in ("port", "second_port")
    }


def _name_tasks(context: NodeContext, names: Sequence[Peer]) -> dict[tuple[str, int], Task]:
    tasks: dict[tuple[str, int], Task] = {("name", peer["rank"]): partial(name_result, peer) for peer in names}
    tasks["own", -1] = partial(_own_name, context.host)
    return tasks


def _own_name(host: str) -> dict[str, Any]:
    addresses, error = addresses_of(host)
    return {"addresses": addresses[:4], "error": error}


def _timings(
    order: Mapping[str, Any], links: Mapping[int, Peer], found: Mapping[tuple[str, int], Any]
) -> dict[str, Any]:
    """Return the `latency` to the peer that the head's `order` names for it, in seconds, and the `clock` offset to the
    peer that it names for that. A peer that was not reached has neither."""
    timings: dict[str, Any] = {}
    reached = {rank: peer for rank, peer in links.items() if not found["port", rank]["error"]}
    latency, clock = order.get("latency"), order.get("clock")
    if latency in reached:
        timings["latency"] = echo_seconds(reached[latency])
    offset = best_offset(time_exchanges(reached[clock])) if clock in reached else None
    if offset:
        timings["clock"] = [offset.seconds, offset.uncertainty]
    return timings
