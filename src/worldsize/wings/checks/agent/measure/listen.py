"""The stage that opens the node's listener, which stays open until the node's program ends.

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
    """Open this node's listener for the connections of the check, and return its `port` (one of those that ranks use),
    `second_port` (chosen by the kernel) and `token`. From now on, connections of this node are also authenticated with
    the run's own token, which the nodes have from the run's directory, because the listeners' tokens are sent over the
    network. Raise OSError, DamagedRun."""
    found = read_rendezvous(RunPaths(context.run_dir, context.attempt))
    if found is None:
        raise FileNotFoundError("the run's token is missing")
    greeting.use_token_of_run(found.token)
    return listener.start(order).answer()
