"""The measurements of a node in the second round of pairs.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.measure.pairs import measure
from worldsize.wings.checks.agent.node_context import NodeContext


def run(context: NodeContext, order: Mapping[str, Any]) -> dict[str, Any]:
    """Measure this node in the second round of pairs. Return the same measurements as in the first round
    (`measure/pairs.py`), over connections of their own kind."""
    return measure(context, order, "second_pairs")
