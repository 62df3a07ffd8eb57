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
from worldsize.wings.checks.agent.stages.listen import listener_of

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
        """The ranks of each node; nothing where torch is not what the job uses, or there is one rank alone."""
        asked, nodes = cluster.asked, cluster.nodes
        backend = _backend(cluster)
        count = _ranks_per_node(cluster, backend)
        store = listener_of(nodes[0])
        if not _is_for_torch(asked) or len(nodes) * count < 2:
            return {}
        if len(nodes) > 1 and store is None:
            return {}
        address = nodes[0].address or "127.0.0.1"
        common = {
            "python": str(asked.get("python") or "python"), "backend": backend, "world": len(nodes) * count,
            "count": count, "address": address, "seconds": SECONDS, "together": TOGETHER[backend],
            "size": SIZE,
        }  # fmt: skip
        return {
            node.node_rank: {**common, "first": at * count, "store": store if at else None, "readers": len(nodes) - 1}
            for at, node in enumerate(nodes)
        }

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """The rows of the ranks that had orders."""
        orders = self.orders(cluster)
        return collective_rows([node for node in cluster.nodes if node.node_rank in orders], _backend(cluster))


def _is_for_torch(asked: Mapping[str, Any]) -> bool:
    """Whether the job uses torch's collectives, as its distribution or its script says, and not by MPI."""
    framework, backend = asked.get("framework", "none"), asked.get("backend")
    return (framework in FRAMEWORKS and backend != "mpi") or (framework == "none" and backend in BACKENDS)


def _backend(cluster: Cluster) -> str:
    """NCCL where all nodes have GPUs that their torch can use, unless the job says gloo."""
    asked = cluster.asked
    return (
        "nccl"
        if all(usable_gpus(node, asked) for node in cluster.nodes) and asked.get("backend") in (None, "", "nccl")
        else "gloo"
    )


def _ranks_per_node(cluster: Cluster, backend: str) -> int:
    asked = cluster.asked.get("ranks")
    count = asked if isinstance(asked, int) and asked > 0 else 1
    if backend == "nccl":
        return min(count, *(usable_gpus(node, cluster.asked) for node in cluster.nodes))
    return count if count <= MAX_ON_CPUS and count * len(cluster.nodes) <= MAX_WORLD else 1


STAGE = _Collective()
