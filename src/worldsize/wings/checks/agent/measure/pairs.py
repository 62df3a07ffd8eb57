"""The measurements of a node in the first round of pairs.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.measure.compute import compute_speed
from worldsize.wings.checks.agent.measure.ring import ring_speed
from worldsize.wings.checks.agent.node_context import NodeContext
from worldsize.wings.checks.agent.programs.rank_group import reports_of_ranks
from worldsize.wings.checks.agent.programs.torch_programs import PAIR


def run(context: NodeContext, order: Mapping[str, Any]) -> dict[str, Any]:
    """Measure this node in the first round of pairs. Return the `network` rates with the neighbours in the ring, if the
    head's `order` names the `next` node; the computing speed, as `compute`; and the reports of a rank for each GPU, as
    `gpus`, if the order contains `gpus`."""
    return measure(context, order, "pairs")


def measure(context: NodeContext, order: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """Return the measurements of this node in a round of pairs, as `run` does, over connections of the given `kind`."""
    answer: dict[str, Any] = {"network": ring_speed(order, kind)} if order.get("next") else {}
    answer["compute"] = compute_speed(root=context.root)
    if order.get("gpus"):
        answer["gpus"] = _gpus(context, order["gpus"], f"{kind}.gpus")
    return answer


def _gpus(context: NodeContext, order: Mapping[str, Any], kind: str) -> dict[str, Any]:
    try:
        return reports_of_ranks(context, order, PAIR, kind)
    except OSError as error:
        return {str(order["first"]): {"error": f"{type(error).__name__}: {error}"[:200]}}
