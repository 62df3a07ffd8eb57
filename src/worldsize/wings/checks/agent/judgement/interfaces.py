"""Check of the interface by which each node reaches the others: that it is of the same kind everywhere, that it is fast
enough, and that it exists if a variable names it.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import BAD, OK, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.groups import (
    Finding,
    difference_of,
    finding_rows,
    has_active_port,
    holders_text,
)
from worldsize.wings.checks.agent.judgement.reach_answers import Interface, ReachAnswer
from worldsize.wings.checks.agent.readers.row_texts import join_texts

ID = "network.interface"

_WHAT = "the interface to the other nodes"

_SLOW_MBPS = 1000

_NCCL, _GLOO = "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"

_DIFFERENT_HINT = "all ranks are as slow as the slowest node: `ip link show {name}` and `ethtool {name}` on {node}"
_SLOW_HINT = "gradients of several GPUs need more: "


def interface_rows(
    nodes: Sequence[CheckedNode], answers: Mapping[int, ReachAnswer | None], asked: Mapping[str, Any]
) -> list[CheckRow]:
    """Return the rows network.interface of the node check: one for each node whose network interface differs from most
    or is too slow for its GPUs, or that lacks an interface that a variable names; otherwise one for all nodes. Empty if
    no interface is known."""
    by_rank = {node.node_rank: node for node in nodes}
    answered = {rank: answer for rank, answer in answers.items() if answer is not None and rank in by_rank}
    known = {rank: answer.interface for rank, answer in answered.items() if answer.interface is not None}
    found = (*_name_findings(answered, asked), *_different(by_rank, known), *_slow(by_rank, known, asked))
    return finding_rows(nodes, ID, _WHAT, found) or _same(known)


def _same(known: Mapping[int, Interface]) -> list[CheckRow]:
    if not known:
        return []
    names = join_texts(sorted({interface.name for interface in known.values()}), 4, ", ")
    words = _words(next(iter(known.values())))
    return [CheckRow("", ID, _WHAT, f"{len(known)} nodes: {names}, {words}", OK)]


def _words(interface: Interface) -> str:
    return ", ".join(text for text in _attributes(interface).values() if text)


def _attributes(interface: Interface) -> dict[str, str]:
    """Return the attributes of a network interface, as texts by name, that must be the same on all nodes; "" for one
    that is not known."""
    speed = f"{interface.mbps / 1000:g} Gb/s" if interface.mbps else ""
    return {"kind": interface.kind, "speed": speed, "mtu": f"MTU {interface.mtu:g}" if interface.mtu else ""}


def _different(by_rank: Mapping[int, CheckedNode], known: Mapping[int, Interface]) -> Iterator[tuple[int, Finding]]:
    attributes = {rank: _attributes(interface) for rank, interface in known.items()}
    for name in ("kind", "speed", "mtu"):
        difference = difference_of({rank: each[name] for rank, each in attributes.items() if each[name]})
        for rank, value in difference.others.items() if difference else ():
            assert difference is not None
            words = f"{known[rank].name}: {value}, {holders_text(by_rank, difference.usual_nodes)} {difference.usual}"
            hint = _DIFFERENT_HINT.format(name=known[rank].name, node=by_rank[rank].label)
            yield rank, Finding(WARNING, words, hint)


def _slow(
    by_rank: Mapping[int, CheckedNode], known: Mapping[int, Interface], asked: Mapping[str, Any]
) -> Iterator[tuple[int, Finding]]:
    """Yield the rank and a finding of each node whose interface has 1 Gb/s or less for two GPUs or more, and which has
    no InfiniBand or RoCE port that carries the data instead. Unlike gloo, NCCL finds a faster interface by itself."""
    for rank, interface in known.items():
        node = by_rank[rank]
        if interface.mbps and interface.mbps <= _SLOW_MBPS and _gpus(node, asked) > 1 and not has_active_port(node):
            if interface.faster and asked.get("backend") != "gloo":
                continue
            advice = f"set {_GLOO} to {interface.faster[0]}" if interface.faster else "use faster nodes, or one"
            yield rank, Finding(WARNING, f"{interface.name}: {interface.mbps / 1000:g} Gb/s", _SLOW_HINT + advice)


def _gpus(node: CheckedNode, asked: Mapping[str, Any]) -> int:
    gpus = asked.get("gpus")
    seen = node.facts.get("gpus")
    if isinstance(gpus, int):
        return gpus
    return len(seen) if isinstance(seen, (list, tuple)) else 0


def _name_findings(answered: Mapping[int, ReachAnswer], asked: Mapping[str, Any]) -> Iterator[tuple[int, Finding]]:
    """Yield the rank and a finding of each node that has none of the interfaces that NCCL_SOCKET_IFNAME or
    GLOO_SOCKET_IFNAME names there."""
    for rank, answer in answered.items():
        for variable, backend in ((_NCCL, "nccl"), (_GLOO, "gloo")):
            value = answer.ifnames.get(variable, "")
            if value and answer.interfaces and not _matches(variable, value, answer.interfaces):
                verdict = BAD if asked.get("backend") == backend else WARNING
                words = f"{variable}={value} names none of its interfaces: {join_texts(answer.interfaces, 6, ', ')}"
                hint = f"{variable} must name an interface that each node has, with an address"
                yield rank, Finding(verdict, words, hint)


def _matches(variable: str, value: str, interfaces: Sequence[str]) -> bool:
    """Return whether `value`, the value of NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME (`variable`), selects one of the
    `interfaces`. NCCL reads beginnings of names, whole names after `=`, and names to leave out after `^`. gloo reads
    whole names."""
    wanted = [name for name in value.lstrip("=^").split(",") if name]
    if variable == _NCCL and value.startswith("^"):
        return any(not each.startswith(tuple(wanted)) for each in interfaces) or not wanted
    if variable == _NCCL and not value.startswith("="):
        return any(each.startswith(tuple(name.partition(":")[0] for name in wanted)) for each in interfaces)
    return any(name.partition(":")[0] in interfaces for name in wanted)
