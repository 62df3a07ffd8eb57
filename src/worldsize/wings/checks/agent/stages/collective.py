"""One collective over all ranks of the job, with its own Python.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import CheckRow
from worldsize.wings.checks.agent.cluster import Cluster
from worldsize.wings.checks.agent.judgement.answers import usable_gpus
from worldsize.wings.checks.agent.judgement.collective import collective_rows
from worldsize.wings.checks.agent.stages.rank_orders import rank_orders

FRAMEWORKS = ("pytorch", "deepspeed")
BACKENDS = ("gloo", "nccl")
SECONDS = 30
TOGETHER = {"gloo": 12, "nccl": 25}
"""Seconds that the collective may take once all ranks are there. NCCL needs many for hundreds of GPUs."""

SIZE = 1 << 17
"""Numbers of the all-reduce."""

MAX_ON_CPUS, MAX_WORLD = 8, 128
"""The most ranks of a node without GPUs, and of all, each of which loads torch; beyond, each node has one."""


class _Collective:
    name = "collective"
    limit = SECONDS + 4.0

    def orders(self, cluster: Cluster) -> Mapping[int, Mapping[str, Any]]:
        """Return the ranks of each node; nothing where torch is not what the job uses, or there is one rank alone."""
        nodes, backend = cluster.nodes, _backend(cluster)
        counts = [_ranks_per_node(cluster, backend)] * len(nodes)
        if not _is_for_torch(cluster.asked) or sum(counts) < 2:
            return {}
        orders = rank_orders(nodes, counts, backend=backend, size=SIZE, seconds=SECONDS, together=TOGETHER[backend])
        return {node.node_rank: order for node, order in zip(nodes, orders)}

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Return the rows of the ranks that had orders."""
        orders = self.orders(cluster)
        return collective_rows([node for node in cluster.nodes if node.node_rank in orders], _backend(cluster))


def _is_for_torch(asked: Mapping[str, Any]) -> bool:
    """Return whether the job uses torch's collectives, as its distribution or its script says, and not by MPI."""
    framework, backend = asked.get("framework", "none"), asked.get("backend")
    return backend in BACKENDS if framework == "none" else framework in FRAMEWORKS and backend in (None, "", *BACKENDS)


def _backend(cluster: Cluster) -> str:
    """NCCL where all nodes have GPUs that their torch can use, unless the job says gloo. Virtual nodes have the same
    GPUs, each of which NCCL takes once."""
    asked = cluster.asked
    has_gpus = not asked.get("virtual") and all(usable_gpus(node, asked) for node in cluster.nodes)
    return "nccl" if has_gpus and asked.get("backend") in (None, "", "nccl") else "gloo"


def _ranks_per_node(cluster: Cluster, backend: str) -> int:
    asked = cluster.asked.get("ranks")
    count = asked if isinstance(asked, int) and asked > 0 else 1
    if backend == "nccl":
        return min(count, *(usable_gpus(node, cluster.asked) for node in cluster.nodes))
    return count if count <= MAX_ON_CPUS and count * len(cluster.nodes) <= MAX_WORLD else 1


STAGE = _Collective()
