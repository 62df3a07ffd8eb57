"""Which programs a node starts: its ranks, a launcher that starts them, or the user's batch script."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.agent.ranks import Process, rank_processes
from worldsize.plan.environ import LISTED, World
from worldsize.plan.launch import NodePlan, Plan
from worldsize.plan.paths import RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.agent.ranks import Shares


def needs_equipment(plan: Plan) -> bool:
    """Whether something must lie ready for the ranks, or for who starts them."""
    return plan.batch is None and (plan.framework in LISTED or plan.launcher in (*LISTED, "autotune"))


def umask_of(plan: Plan) -> int | None:
    """The umask of a node's programs; None: the agent's own, for a launcher whose ranks set theirs, after each has
    opened its log."""
    return None if plan.launcher in ("torchrun", "mpirun", "srun", "autotune") else plan.ranks_umask


def node_processes(
    plan: Plan, world: World, node: NodePlan, paths: RunPaths, inherited: Mapping[str, str], shares: Shares = ()
) -> list[Process]:
    """What this node starts, in rank order."""
    if plan.batch is not None:
        from worldsize.agent.batch import batch_argv, batch_environment

        environment = batch_environment(plan, paths, inherited)
        return [Process((0,), batch_argv(plan, environment), environment, paths.rank_log(0), ())]
    ranks = rank_processes(plan, world, node, paths, inherited, shares)
    if plan.launcher == "direct":
        return list(ranks)
    from worldsize.agent.launchers import launcher_process

    return [launcher_process(plan, world, node, paths, ranks, inherited)]
