"""What an agent starts for a search, in place of its node's ranks: a tuner, told of the other nodes."""

from __future__ import annotations

import os
import sys

from worldsize.plan.environ import World
from worldsize.plan.files import write_json
from worldsize.plan.launch import NodePlan, Plan
from worldsize.plan.paths import RunPaths


def order_file(paths: RunPaths, node_rank: int) -> str:
    """What a node's agent writes for its tuner: the plan as it is there, where the other nodes are."""
    return os.path.join(paths.launch_dir, "autotune-%d.json" % node_rank)


def write_order(plan: Plan, world: World, node: NodePlan, paths: RunPaths) -> None:
    """Raises OSError."""
    os.makedirs(paths.launch_dir, exist_ok=True)
    addresses = [host.address for host in world.hosts]
    order = {"plan": plan.to_json(), "addresses": addresses, "port": world.hosts[0].ports[0]}
    write_json(order_file(paths, node.node_rank), order)


def tuner_argv(node: NodePlan, paths: RunPaths) -> tuple[str, ...]:
    words = ("--node-rank", str(node.node_rank), "--attempt", str(paths.attempt), "--tune")
    return (sys.executable, paths.agent, paths.root, *words)
