"""The second round of pairs, which pairs slow nodes with fast ones, and the verdict on both rounds.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import CheckRow
from worldsize.wings.checks.agent.cluster import Cluster
from worldsize.wings.checks.agent.judgement.answers import are_real_nodes
from worldsize.wings.checks.agent.judgement.compute_speed import compute_rows
from worldsize.wings.checks.agent.judgement.gpu_speed import gpu_rows
from worldsize.wings.checks.agent.judgement.network_speed import network_rows
from worldsize.wings.checks.agent.judgement.rounds import groups_of
from worldsize.wings.checks.agent.stages.pairs import LIMIT, pair_orders


class _SecondPairs:
    name = "second_pairs"
    limit = LIMIT

    def orders(self, cluster: Cluster) -> Mapping[int, Mapping[str, Any]]:
        """Return a mapping of node rank to the node's order for the second round of speed measurements, for each node
        that answered in the first round; empty for virtual nodes and for a single node."""
        return pair_orders(cluster, groups_of(cluster)[1]) if are_real_nodes(cluster) else {}

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Return the node check's rows about the computing speed, the network speed and the GPUs of the nodes, from the
        answers of both rounds. Return no rows for virtual nodes and for a single node."""
        if not are_real_nodes(cluster):
            return ()
        return [*compute_rows(cluster), *network_rows(cluster), *gpu_rows(cluster)]


STAGE = _SecondPairs()
