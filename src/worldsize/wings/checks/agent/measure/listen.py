"""Open the node's listener, which stays open until the node's program ends.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.wings.checks.agent.measure import listener
from worldsize.wings.checks.agent.node_context import NodeContext


def run(context: NodeContext, order: Mapping[str, Any]) -> dict[str, Any]:
    """`port` (of those that ranks use), `second_port` (of those that the kernel chooses), `token`. Raises OSError."""
    return listener.start(order).answer()
