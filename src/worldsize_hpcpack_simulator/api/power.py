"""The operations of an administrator on a node. Each returns at once and continues in the background."""

from __future__ import annotations

import asyncio

from worldsize_hpcpack_simulator.scheduler.cluster import Cluster, NodeRefused, SimulatedNode

OPERATIONS = ("start", "stop", "reboot", "shutdown", "bringOnline", "takeOffline")
_PATIENCE = 10.0
_BEAT = 0.01


def operate(cluster: Cluster, node: SimulatedNode, operation: str) -> None:
    """Start one of OPERATIONS on a node of the simulated cluster. start, stop, reboot and shutdown affect the node's
    process; bringOnline and takeOffline affect whether it accepts new work, and running tasks continue."""
    if operation == "takeOffline":
        if node.state in ("Online", "Starting"):
            node.enter_state("Draining")
    elif operation == "bringOnline":
        node.enter_state("Online")
    elif operation in ("stop", "shutdown"):
        node.enter_state("Offline")
        cluster.switch_off(node)
    elif node.state != "Starting":
        cluster.run_in_background(_start(cluster, node, restart=operation == "reboot"))


async def _start(cluster: Cluster, node: SimulatedNode, restart: bool) -> None:
    state = node.state if restart else "Online"
    node.enter_state("Starting")
    if restart:
        cluster.switch_off(node)
    for _ in range(int(_PATIENCE / _BEAT)):
        if not node.leaving:
            break
        await asyncio.sleep(_BEAT)
    if node.process is None:
        try:
            await cluster.switch_on(node)
        except (NodeRefused, OSError):
            node.enter_state("Offline")
            return
    node.enter_state(state)
