"""Queries on a cluster and on an answer that the judges of several stages use.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.cluster import CheckedNode, Cluster
from worldsize.wings.checks.agent.judgement.numbers import number_of


def are_real_nodes(cluster: Cluster) -> bool:
    """Return whether the cluster of a node check consists of several nodes that are, or count as, separate machines;
    not the virtual nodes of one machine."""
    return len(cluster.nodes) > 1 and not cluster.asked.get("virtual")


def number_in(answer: Any, name: str) -> float | None:
    """Return the number under the key `name` in `answer`, a node's answer in a stage of the node check; None if there
    is none that is finite and not negative."""
    number = number_of(answer.get(name)) if isinstance(answer, Mapping) else None
    return number if number is not None and number >= 0 else None


def usable_gpus(node: CheckedNode, asked: Mapping[str, Any]) -> int:
    """Return the number of GPUs of the node that its torch can use and that the job may use, from the node's facts and
    the job's requests `asked`."""
    found, torch = node.facts.get("gpus"), node.facts.get("torch")
    if not isinstance(found, (list, tuple)) or not isinstance(torch, Mapping) or not torch.get("cuda"):
        return 0
    most = asked.get("gpus")
    return min(len(found), most) if isinstance(most, int) and most >= 0 else len(found)
