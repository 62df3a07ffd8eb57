"""A table of all nodes. A value is listed once if all nodes have it, else each value with the nodes that have it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from worldsize.state.node_facts import NodeFacts, Rows

HARDWARE = ("CPU", "cores", "memory", "GPU", "GPUs", "GPU memory", "kernel", "network")
SOFTWARE = ("system", "driver", "framework", "MPI", "CUDA", "NCCL", "cuDNN", "Python", "compiler")
NONE = "none"
_MOST_NAMES = 3
_MOST_VALUES = 8


def hardware_table(nodes: Sequence[NodeFacts]) -> Rows:
    """Return the rows (name, text) of the hardware of all `nodes`, the number of nodes first. Empty without nodes.
    Nodes that are one machine count once."""
    if not nodes:
        return ()
    machines = _one_of_each_machine(nodes)
    return (
        ("nodes", _nodes_text(nodes, len(machines))),
        *_merged(machines, [each.hardware for each in machines], HARDWARE),
    )


def software_table(nodes: Sequence[NodeFacts], reported: Mapping[str, str] = {}) -> Rows:
    """Return the rows (name, text) of the software of all `nodes`. Values that ranks have `reported` about themselves
    replace those from files, row by row, since ranks know what they have loaded. A row with another name comes last."""
    machines = _one_of_each_machine(nodes)
    found = dict(_merged(machines, [each.software for each in machines], SOFTWARE))
    found.update((name, text) for name, text in reported.items() if text)
    return _in_order(found, SOFTWARE)


def _one_of_each_machine(nodes: Sequence[NodeFacts]) -> list[NodeFacts]:
    """Return the first of `nodes` on each machine. Nodes whose machine is not known count as machines of their own."""
    found = {node.machine or f"node {node.node_rank}": node for node in reversed(nodes)}
    return sorted(found.values(), key=lambda node: node.node_rank)


def _nodes_text(nodes: Sequence[NodeFacts], machines: int) -> str:
    if machines == len(nodes):
        return str(len(nodes))
    of = "one machine" if machines == 1 else f"{machines} machines"
    return f"{len(nodes)} virtual nodes of {of}"


def _merged(nodes: Sequence[NodeFacts], tables: Sequence[Rows], order: Sequence[str]) -> Rows:
    values = [dict(table) for table in tables]
    names = dict.fromkeys(name for table in values for name in table)
    found = {name: _folded(nodes, [table.get(name, NONE) for table in values]) for name in names}
    return _in_order(found, order)


def _in_order(found: Mapping[str, str], order: Sequence[str]) -> Rows:
    """Return the rows `found` (a mapping of name to text): names in `order` first, in that order, then the others."""
    return tuple((name, found[name]) for name in dict.fromkeys((*order, *found)) if name in found)


def _folded(nodes: Sequence[NodeFacts], values: Sequence[str]) -> str:
    """Return the one value that all `nodes` have, or each value with the names of its nodes, the most frequent first:
    "A100 (n1–n3), V100 (n4)"."""
    holders: dict[str, list[NodeFacts]] = {}
    for node, value in zip(nodes, values, strict=True):
        holders.setdefault(value, []).append(node)
    if len(holders) == 1:
        return values[0]
    ordered = sorted(holders.items(), key=lambda each: (-len(each[1]), each[1][0].node_rank))
    more = [f"and {len(ordered) - _MOST_VALUES} more"] if len(ordered) > _MOST_VALUES else []
    return "; ".join([*(f"{value} ({node_names(held)})" for value, held in ordered[:_MOST_VALUES]), *more])


def node_names(nodes: Sequence[NodeFacts]) -> str:
    """Return the names of nodes, with neighbours in the run as a span: "n1–n4, n7". A node without a host name is shown
    by its number."""
    spans = [_span([node for _, node in group]) for _, group in groupby(enumerate(nodes), _distance)]
    more = len(spans) - _MOST_NAMES
    return ", ".join([*spans[:_MOST_NAMES], *([f"and {more} more"] if more > 0 else [])])


def _distance(numbered: tuple[int, NodeFacts]) -> int:
    place, node = numbered
    return node.node_rank - place


def _span(nodes: Sequence[NodeFacts]) -> str:
    first, last = (node.host or f"node {node.node_rank}" for node in (nodes[0], nodes[-1]))
    return first if len(nodes) == 1 else f"{first}–{last}" if len(nodes) > 2 else f"{first}, {last}"
