"""From the plan to processes: which programs a node starts, for which ranks, with which environment and log."""

from __future__ import annotations

import os
from typing import Mapping, NamedTuple

from worldsize.agent.torchrun import torchrun_argv
from worldsize.plan.environ import RankContext, World, rank_environment
from worldsize.plan.launch import NodePlan, Plan
from worldsize.plan.paths import RunPaths


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
        values = environment(0)
        argv = torchrun_argv(plan, world, node, paths, values)
        return [Process(every, argv, values, paths.launcher_log(node.node_rank), ())]
    return [
        Process((rank.rank,), plan.argv, environment(index), paths.rank_log(rank.rank), cpus(index))
        for index, rank in enumerate(node.ranks)
    ]
