"""The stage that runs one collective over all ranks of the job with the job's own Python.

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
"""Time limit of the collective in seconds, once all ranks have arrived. NCCL needs many seconds for hundreds of
GPUs."""

SIZE = 1 << 17
"""The number of elements in the all-reduce."""

MAX_ON_CPUS, MAX_WORLD = 8, 128
"""The largest number of ranks per node without GPUs, and of all ranks. Each of them loads torch. If there are more,
each node has one rank."""


class _Collective:
    name = "collective"
    limit = SECONDS + 4.0

    def orders(self, cluster: Cluster) -> Mapping[int, Mapping[str, Any]]:
        """Return a mapping of node rank to the order of the node's ranks in the collective over all nodes; empty if the
        job does not use torch, or if there is only one rank."""
        nodes, backend = cluster.nodes, _backend(cluster)
        counts = [_ranks_per_node(cluster, backend)] * len(nodes)
        if not _is_for_torch(cluster.asked) or sum(counts) < 2:
            return {}
        orders = rank_orders(nodes, counts, backend=backend, size=SIZE, seconds=SECONDS, together=TOGETHER[backend])
        return {node.node_rank: order for node, order in zip(nodes, orders)}

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Return the rows collective.result about the nodes that had orders for the collective."""
        orders = self.orders(cluster)
        return collective_rows([node for node in cluster.nodes if node.node_rank in orders], _backend(cluster))


def _is_for_torch(asked: Mapping[str, Any]) -> bool:
    """Return whether the job uses torch's collectives with a backend other than MPI, according to the framework and
    backend in `asked`, which the client sent about the job."""
    framework, backend = asked.get("framework", "none"), asked.get("backend")
    return backend in BACKENDS if framework == "none" else framework in FRAMEWORKS and backend in (None, "", *BACKENDS)


def _backend(cluster: Cluster) -> str:
    """Return "nccl" if all nodes have GPUs that their torch can use and the job does not choose gloo; "gloo" otherwise.
    Virtual nodes get gloo: they share the same GPUs, and NCCL accepts each GPU only once."""
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
