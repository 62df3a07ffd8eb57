"""The stage that checks what must be the same on all nodes. It uses only the facts of the probes.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import CheckRow
from worldsize.wings.checks.agent.cluster import Cluster
from worldsize.wings.checks.agent.judgement.answers import are_real_nodes
from worldsize.wings.checks.agent.judgement.hardware import hardware_rows
from worldsize.wings.checks.agent.judgement.mounts import path_rows
from worldsize.wings.checks.agent.judgement.variables import variable_rows
from worldsize.wings.checks.agent.judgement.versions import version_rows


class SameStage:
    """The stage `same`, which compares the versions, variables, hardware and files of the nodes. It returns nothing for
    virtual nodes, which are one machine."""

    name = "same"
    limit = 1.0

    def orders(self, cluster: Cluster) -> Mapping[int, Mapping[str, Any]]:
        """Return no orders, because the comparison of the nodes needs only the facts of their probes."""
        return {}

    def judge(self, cluster: Cluster) -> Sequence[CheckRow]:
        """Return the node check's rows about the comparison of versions, variables, hardware and paths between the
        nodes: one for each difference, and one for each comparison without a difference. Return no rows for virtual
        nodes and for a single node."""
        nodes = cluster.nodes
        if not are_real_nodes(cluster):
            return ()
        return (
            *version_rows(nodes, cluster.asked),
            *variable_rows(nodes, cluster.asked),
            *hardware_rows(nodes),
            *path_rows(nodes),
        )


STAGE = SameStage()
