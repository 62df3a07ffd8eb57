"""The values that TensorFlow, JAX and Ray read from variables of their own: `TF_CONFIG`, a rank's devices, the
cluster's address.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json

from worldsize.plan.plan import Plan
from worldsize.plan.rank_variables import LOOPBACK, Host, RankContext, RendezvousResult

OUTSIDE = "evaluator"
"""The type of the one task with which no other communicates. It is in `task` alone, never in `cluster`."""


RAYS_LOOPBACK = "127.0.0.2"


def tf_config(context: RankContext) -> str:
    """Return `TF_CONFIG`: the tasks of a TensorFlow job, the address of each, and the task of this rank, in the form
    that Azure ML writes. Every task listens at its node's address, on a port that its node has found free."""
    cluster: dict[str, list[str]] = {}
    for node in context.plan.nodes:
        host = context.world.hosts[node.node_rank]
        for rank in node.ranks:
            if rank.role != OUTSIDE:
                cluster.setdefault(rank.role, []).append(f"{host.address}:{host.ports[rank.local_rank]}")
    task = {"type": context.rank.role, "index": context.rank.role_index}
    return json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})


def jax_devices(context: RankContext) -> object:
    """Return the GPUs of JAX for a rank: its even share of its node's GPUs, as a number or a text such as "0,1"; 0 if
    only its own GPU is visible to it. JAX itself would give one to each process, for any number of GPUs. None if the
    number of GPUs is not known."""
    gpus, ranks = context.plan.gpus, len(context.node.ranks)
    if not gpus:
        return None
    if context.plan.visible_devices:
        return 0
    if ranks > gpus:
        return context.rank.local_rank % gpus
    first, each = context.rank.local_rank * (gpus // ranks), gpus // ranks
    return ",".join(map(str, range(first, first + each)))


def ray_address(context: RankContext) -> str:
    """Return the address, HOST:PORT, at which `ray.init()` finds the run's Ray cluster."""
    return "{}:{}".format(*ray_head(context.plan, context.world))


def ray_head(plan: Plan, world: RendezvousResult) -> tuple[str, int]:
    """Return the address and the port at which the head of the run's Ray cluster listens."""
    return _without_loopback(world.address), int(plan.options.get("port") or world.port)


def ray_node_address(host: Host) -> str:
    """Return the address by which the other nodes reach Ray on the node `host`."""
    return _without_loopback(host.address)


def _without_loopback(address: str) -> str:
    """Return `address`, or another loopback address instead of 127.0.0.1. Ray would replace 127.0.0.1 with an address
    that other machines can reach (`ray._private.services.resolve_ip_for_localhost`)."""
    return RAYS_LOOPBACK if address == LOOPBACK else address
