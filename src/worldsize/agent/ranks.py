"""From the plan to processes: which programs a node starts, for which ranks, with which environment and log."""

from __future__ import annotations

import os
from typing import Mapping, NamedTuple

from worldsize.plan.environ import RankContext, World, rank_environment
from worldsize.plan.launch import NodePlan, Plan
from worldsize.plan.paths import RunPaths

_TORCHRUN_RANK = (
    'r=$(printf %05d "$RANK"); export WORLDSIZE_RANK="$RANK" WORLDSIZE_LOCAL_RANK="$LOCAL_RANK" '
    'WORLDSIZE_ERROR_FILE="$1/rank-$r.json"; log="$2/rank-$r.log"; shift 2; exec "$@" >>"$log" 2>&1'
)
"""What torchrun starts for each rank: it gives the rank its own log and error file, then becomes the command."""


class Process(NamedTuple):
    """One process that the agent starts; under torchrun it stands for all ranks of the node."""

    ranks: tuple[int, ...]
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    log: str
    cpus: tuple[int, ...]


def default_threads(plan: Plan, node: NodePlan) -> int:
    """Threads per rank: the plan's, else the node's cores shared out evenly."""
    return plan.threads or max(1, _cores() // len(node.ranks))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def node_processes(
    plan: Plan, world: World, node: NodePlan, paths: RunPaths, inherited: Mapping[str, str]
) -> list[Process]:
    """What this node starts, in rank order."""
    threads = default_threads(plan, node)

    def environment(index: int) -> dict[str, str]:
        rank = node.ranks[index]
        context = RankContext(plan, world, node, rank, paths.root, paths.rank_error(rank.rank))
        values = rank_environment(context, inherited, threads)
        hook = [paths.inrank, values["PYTHONPATH"]] if values.get("PYTHONPATH") else [paths.inrank]
        values["PYTHONPATH"] = os.pathsep.join(hook)
        return values

    def cpus(index: int) -> tuple[int, ...]:
        return plan.binding[index] if plan.binding else ()

    if plan.launcher == "torchrun":
        every = tuple(rank.rank for rank in node.ranks)
        argv = torchrun_argv(plan, world, node, paths)
        return [Process(every, argv, environment(0), paths.launcher_log(node.node_rank), ())]
    return [
        Process((rank.rank,), plan.argv, environment(index), paths.rank_log(rank.rank), cpus(index))
        for index, rank in enumerate(node.ranks)
    ]


def torchrun_argv(plan: Plan, world: World, node: NodePlan, paths: RunPaths) -> tuple[str, ...]:
    """One torch.distributed.run with c10d rendezvous on the head's port, as HPC Pack's guide starts it."""
    return (
        "python", "-m", "torch.distributed.run",
        "--nnodes=%d" % len(plan.nodes), "--nproc-per-node=%d" % len(node.ranks),
        "--rdzv-id=%s" % plan.run_id, "--rdzv-backend=c10d",
        "--rdzv-endpoint=%s:%d" % (world.address, world.port),
        "--rdzv-conf=is_host=%d" % (node.node_rank == 0),
        "--max-restarts=0", "--no-python",
        "/bin/sh", "-c", _TORCHRUN_RANK, "sh", paths.errors_dir, paths.logs_dir, *plan.argv,
    )  # fmt: skip


