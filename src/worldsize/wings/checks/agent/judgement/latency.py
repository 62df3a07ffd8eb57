"""Check for nodes that answer much slower than the others.

Each node measures the one after it, so that each has two figures: its own to the next, and that of the previous one to
it. The smaller one counts: a slow neighbour affects one of them, a slow node both.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.state.check_rows import OK, WARNING, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.judgement.numbers import duration_text, median_of
from worldsize.wings.checks.agent.judgement.reach_answers import ReachAnswer

ID = "network.latency"

SLOW_FACTOR = 10
SLOW_FROM = 0.005
"""The limits of a slow node: above ten times the median of the others, and above 5 ms."""

_WHAT = "round trip of 64 bytes by TCP"

_HINT = "look for another way, a full link or a busy processor: `ip route get ADDRESS`, `ethtool -S`, `top` on {}"


def latency_rows(nodes: Sequence[CheckedNode], answers: Mapping[int, ReachAnswer | None]) -> list[CheckRow]:
    """Return the rows network.latency of the node check: one for each node that answers slowly, if there are three or
    more nodes; otherwise one for all, with the smallest, the median and the largest latency. Empty if nothing was
    measured."""
    seconds = _seconds(nodes, answers)
    if not seconds:
        return []
    rows = [row for node in nodes for row in _slow_rows(node, seconds)] if len(seconds) > 2 else []
    return rows or [CheckRow("", ID, _WHAT, _summary(list(seconds.values())), OK)]


def _seconds(nodes: Sequence[CheckedNode], answers: Mapping[int, ReachAnswer | None]) -> dict[int, float]:
    """Return the latency of each node in seconds, by its rank: the smaller of its own to the next node and that of the
    previous node to it."""
    figures: dict[int, list[float]] = {}
    for index, node in enumerate(nodes):
        answer = answers.get(node.node_rank)
        if answer is not None and answer.latency is not None:
            for measured in (node, nodes[(index + 1) % len(nodes)]):
                figures.setdefault(measured.node_rank, []).append(answer.latency)
    return {rank: min(found) for rank, found in figures.items()}


def _slow_rows(node: CheckedNode, seconds: Mapping[int, float]) -> list[CheckRow]:
    own = seconds.get(node.node_rank)
    if own is None or own <= SLOW_FROM:
        return []
    usual = median_of([each for rank, each in seconds.items() if rank != node.node_rank])
    if own <= SLOW_FACTOR * usual:
        return []
    value = f"{duration_text(own)}, the median of the others is {duration_text(usual)}"
    return [CheckRow(node.label, ID, _WHAT, value, WARNING, _HINT.format(node.label))]


def _summary(seconds: Sequence[float]) -> str:
    least, most = duration_text(min(seconds)), duration_text(max(seconds))
    if len(seconds) < 3:
        return most
    return f"{least} to {most}, median {duration_text(median_of(seconds))}"
