"""Open the node's listener, which stays open until the node's program ends.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.agent.control.rendezvous import read_rendezvous
from worldsize.common.named_tuple import Any
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.checks.agent.measure import listener
from worldsize.wings.checks.agent.network import greeting
from worldsize.wings.checks.agent.node_context import NodeContext


def run(context: NodeContext, order: Mapping[str, Any]) -> dict[str, Any]:
    """`port` (of those that ranks use), `second_port` (of those that the kernel chooses), `token`. What this node says
    and hears from here on is proved with the run's own token, too, which the nodes have from its directory: the
    listeners' tokens are told over the network. Raises OSError, and DamagedRun."""
    found = read_rendezvous(RunPaths(context.run_dir, context.attempt))
    if found is None:
        raise FileNotFoundError("the run's token is missing")
    greeting.use_token_of_run(found.token)
    return listener.start(order).answer()
