"""Judgement of the nodes that send or receive slower than the others, with two different partners.

Pure. Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.numbers import bytes_text
from worldsize.state.check_rows import OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.judgement.pairs import next_of, previous_of
from worldsize.wings.checks.agent.judgement.rounds import (
    ROUNDS,
    Compute,
    answer_of,
    groups_of,
    network_rate,
    network_ratios,
)

ID = "speed.network"
WHAT = "TCP with two other nodes"
SLOW = 0.5
BUSY = 0.3
"""The share of the time without a core above which a node's rate shows nothing about its network."""

_DIRECTIONS = (("received", "sent", previous_of), ("sent", "received", next_of))
_HINT = "its network card, cable or port is slow, or it uses another interface: leave it out (--exclude-bad)"


def network_rows(cluster: Cluster) -> list[CheckRow]:
    """Return the rows speed.network of the node check: one for each node that sends or receives slowly by TCP; one for
    all if there is none, and no row if nothing was measured. A node that does not answer has a row of its computing
    speed instead."""
    measured = [node for node in cluster.nodes if all(_is_measured(node, name) for name in ROUNDS)]
    if not measured:
        return []
    slow = _slow_nodes(cluster, measured)
    if slow and any(_is_busy(node) for node in measured):
        return [CheckRow("", ID, WHAT, _span(measured), UNKNOWN, "the nodes' cores are busy, which slows TCP as well")]
    return [_slow_row(node, slow[node.node_rank]) for node in measured if node.node_rank in slow] or [
        CheckRow("", ID, WHAT, _span(measured), OK)
    ]


def _is_measured(node: CheckedNode, name: str) -> bool:
    return all(network_rate(node, name, direction) is not None for direction, _, _ in _DIRECTIONS)


def _is_busy(node: CheckedNode) -> bool:
    found = [Compute(answer_of(node, name)) for name in ROUNDS]
    return max(each.waited + each.lost for each in found) > BUSY


def _slow_nodes(cluster: Cluster, measured: Sequence[CheckedNode]) -> dict[int, str]:
    """Return a description of the slow direction (sent or received) of each node of `measured` whose TCP is slow, by
    its rank."""
    groups = groups_of(cluster)
    found: dict[int, str] = {}
    for direction, opposite, peers in _DIRECTIONS:
        ratios = [network_ratios(measured, name, direction) for name in ROUNDS]
        theirs = [network_ratios(measured, name, opposite) for name in ROUNDS]
        partners = [peers(each) for each in groups]
        for node in measured:
            if _is_slow(node.node_rank, ratios, theirs, partners):
                ratio = max(each[node.node_rank] for each in ratios)
                found.setdefault(node.node_rank, f"{direction} at {ratio:.0%} of the other nodes' rate, twice")
    return found


def _is_slow(
    rank: int,
    ratios: Sequence[Mapping[int, float]],
    theirs: Sequence[Mapping[int, float]],
    partners: Sequence[Mapping[int, int]],
) -> bool:
    """Return whether the TCP of the node `rank` was slow, in one direction, with two partners, at least one of which
    was not slow with its other partner. `ratios` are the nodes' rates relative to the others', `theirs` those of the
    opposite direction, and `partners` the peers, of each round."""
    first, second = (each.get(rank) for each in partners)
    if first is None or second is None or first == second or any(each[rank] >= SLOW for each in ratios):
        return False
    return theirs[1].get(first, 0.0) >= SLOW or theirs[0].get(second, 0.0) >= SLOW


def _slow_row(node: CheckedNode, words: str) -> CheckRow:
    return CheckRow(node.label, ID, WHAT, f"{words} ({_span([node])})", WARNING, _HINT)


def _span(nodes: Sequence[CheckedNode]) -> str:
    asked = [(node, name, direction) for node in nodes for name in ROUNDS for direction, _, _ in _DIRECTIONS]
    rates = [network_rate(*each) or 0.0 for each in asked]
    return f"{bytes_text(min(rates))}/s to {bytes_text(max(rates))}/s each way"
