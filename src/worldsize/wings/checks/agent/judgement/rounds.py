"""The measurements of the two rounds of pairs, in the form that their judges read.

Pure. Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.judgement.answers import number_in
from worldsize.wings.checks.agent.judgement.pairs import against_others, first_groups, second_groups

FIRST, SECOND = "pairs", "second_pairs"
ROUNDS = (FIRST, SECOND)

REAL_LOSS = 0.08
"""The share of the time that a limit or a signal must have taken before it counts. Less than that is the difference
between clocks and counters on a busy machine. In a hundred checks of four nodes on two cores it was once 0.06, and
never 0.01 twice."""


class Compute:
    """The computing speed of one node in one round, as `measure/compute.py` reports it. The rate is 0 if it reports
    none."""

    def __init__(self, answer: Any) -> None:
        found = answer.get("compute") if isinstance(answer, Mapping) else None
        self.kernel = str(found.get("kernel", "")) if isinstance(found, Mapping) else ""
        self.running = number_in(found, "running") or 0.0
        self.waited = min(number_in(found, "waited") or 0.0, 1.0)
        self.throttled = min(number_in(found, "throttled") or 0.0, 1.0)
        self.stopped = min(number_in(found, "stopped") or 0.0, 1.0)
        self._rate = number_in(found, "rate") or 0.0

    @property
    def lost(self) -> float:
        """The share of the time in which the node was kept from running."""
        return self.throttled + self.stopped

    @property
    def rate(self) -> float:
        """Bytes per second and core, without the time that other processes had. If the lost share is below REAL_LOSS,
        it is the rate per CPU time."""
        return self._rate if self.lost >= REAL_LOSS else self.running


def answer_of(node: CheckedNode, name: str) -> Mapping[str, Any]:
    """Return the node's answer in the round `name` of the speed measurements ("pairs" or "second_pairs"); empty if it
    failed or did not answer."""
    answer = node.answers.get(name)
    return answer if isinstance(answer, Mapping) and "error" not in answer else {}


def network_rate(node: CheckedNode, name: str, direction: str) -> float | None:
    """Return the bytes per second that the node `received` or `sent` by TCP in the round `name`; None if they were not
    measured."""
    return number_in(answer_of(node, name).get("network"), direction)


def network_ratios(nodes: Sequence[CheckedNode], name: str, direction: str) -> dict[int, float]:
    """Return each node's TCP rate in the given direction in the round `name`, divided by the median of the other
    nodes', by the node's rank. Nodes without a rate are left out."""
    rates = {node.node_rank: network_rate(node, name, direction) for node in nodes}
    return against_others({rank: rate for rank, rate in rates.items() if rate is not None})


def compute_ratios(nodes: Sequence[CheckedNode], name: str) -> dict[int, float]:
    """Return each node's computing rate in the round `name`, divided by the median of the other nodes that executed the
    same computation, by the node's rank. Nodes without a rate are left out."""
    found = {node.node_rank: Compute(answer_of(node, name)) for node in nodes}
    ratios: dict[int, float] = {}
    for kernel in {each.kernel for each in found.values()}:
        ratios.update(against_others({rank: x.rate for rank, x in found.items() if x.kernel == kernel and x.rate > 0}))
    return ratios


def gpu_reports(node: CheckedNode, name: str) -> list[Mapping[str, Any]]:
    """Return the reports of the ranks of the node's GPUs in the round `name` of the speed measurements, in the order of
    the GPUs."""
    found = answer_of(node, name).get("gpus")
    if not isinstance(found, Mapping):
        return []
    ordered = sorted(found.items(), key=lambda item: (len(str(item[0])), str(item[0])))
    return [report if isinstance(report, Mapping) else {} for _, report in ordered]


def gathering_rates(nodes: Sequence[CheckedNode], name: str) -> dict[int, float]:
    """Return the bytes per second that the slowest rank of each node received in NCCL's all-gather in the round `name`,
    by the node's rank. Nodes without a rate for every rank are left out."""
    found = {node.node_rank: [number_in(each, "gathering") for each in gpu_reports(node, name)] for node in nodes}
    return {rank: min(rate or 0.0 for rate in rates) for rank, rates in found.items() if rates and all(rates)}


def groups_of(cluster: Cluster) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Return the groups of nodes that measure together in the first round, and those of the second round, which contain
    the nodes that have answered in the first."""
    first = first_groups([node.node_rank for node in cluster.nodes])
    return first, second_groups(_scores(cluster), first)


def _scores(cluster: Cluster) -> dict[int, float]:
    """Return the speed of each node in the first round by its rank, compared with the other nodes, in the measurement
    (TCP, computing, all-gather) in which it was slowest."""
    ways = [network_ratios(cluster.nodes, FIRST, direction) for direction in ("received", "sent")]
    ways += [compute_ratios(cluster.nodes, FIRST), against_others(gathering_rates(cluster.nodes, FIRST))]
    answered = [node.node_rank for node in cluster.nodes if answer_of(node, FIRST)]
    return {rank: min(way.get(rank, 1.0) for way in ways) for rank in answered}
