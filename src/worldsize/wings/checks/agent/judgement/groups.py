"""Comparison of a value that must be the same on all nodes, and the rows of findings about nodes.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.state.check_rows import VERDICTS, CheckRow
from worldsize.wings.checks.agent.cluster import CheckedNode
from worldsize.wings.checks.agent.readers.row_texts import join_texts

NOT_SET = ""
"""The value of a node that does not have what others have."""

_LONGEST = 60


class Difference(NamedTuple):
    """The value that most nodes have, the ranks of the nodes that have it, and the value of each other node, by its
    rank."""

    usual: str
    usual_nodes: tuple[int, ...]
    others: Mapping[int, str]


def difference_of(values: Mapping[int, str]) -> Difference | None:
    """Return how the `values` of the nodes, by their ranks, differ: the usual value and the others; None if they are
    equal. If two values are equally frequent, the usual one is that of the lowest rank."""
    ranks: dict[str, list[int]] = {}
    for rank in sorted(values):
        ranks.setdefault(values[rank], []).append(rank)
    if len(ranks) < 2:
        return None
    usual = max(ranks, key=lambda value: (len(ranks[value]), -ranks[value][0]))
    others = {rank: value for value, holders in ranks.items() if value != usual for rank in holders}
    return Difference(usual, tuple(ranks[usual]), others)


def holders_text(nodes: Mapping[int, CheckedNode], ranks: Sequence[int]) -> str:
    """Return in words, with their verb, which nodes have the usual value of a comparison: "the other 3 have", "node0
    has". `ranks` are those of the nodes that have it."""
    return f"{nodes[ranks[0]].label} has" if len(ranks) == 1 else f"the other {len(ranks)} have"


class Finding(NamedTuple):
    """A problem of a node: its verdict, what was found, and a hint how to fix it."""

    verdict: str
    words: str
    hint: str


def finding_rows(
    nodes: Sequence[CheckedNode], id: str, what: str, found: Iterable[tuple[int, Finding]]
) -> list[CheckRow]:
    """Return a row of the node check, with the given `id` and subject `what`, for each node that has findings. `found`
    are pairs of a node's rank and a Finding. The worst finding of a node is first."""
    by_rank: dict[int, list[Finding]] = {}
    for rank, finding in found:
        by_rank.setdefault(rank, []).append(finding)
    return [_finding_row(node, id, what, by_rank[node.node_rank]) for node in nodes if node.node_rank in by_rank]


def _finding_row(node: CheckedNode, id: str, what: str, found: list[Finding]) -> CheckRow:
    found.sort(key=lambda finding: -VERDICTS.index(finding.verdict))
    return CheckRow(
        node.label, id, what, join_texts([each.words for each in found], 4), found[0].verdict, found[0].hint
    )


def value_text(value: Any) -> str:
    """Return a fact that a node reports as text in one line, with at most 60 characters and without control
    characters."""
    text = value if isinstance(value, str) else str(value)
    shown = "".join(each if each.isprintable() else "?" for each in text[: _LONGEST + 1])
    return shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"


def mapping_of(value: Any) -> Mapping[str, Any]:
    """Return `value` if it is a mapping whose keys are strings, otherwise an empty one, because the data of nodes may
    be anything."""
    return value if isinstance(value, dict) and all(isinstance(name, str) for name in value) else {}


def has_active_port(node: CheckedNode) -> bool:
    """Return whether the node has an InfiniBand or RoCE port that is up."""
    ports = node.facts.get("fabric")
    return isinstance(ports, (list, tuple)) and any("ACTIVE" in str(mapping_of(port).get("state")) for port in ports)
