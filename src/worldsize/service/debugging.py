"""Changes to a plan for a user who debugs its ranks."""

from __future__ import annotations

from worldsize.errors import PlanError
from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.plan import Plan
from worldsize.service.submission.rank_packages import DEBUGGER

_REACHED = (LOCAL, "slurm")
"""Types of computes with nodes that a user can log in to, or is on."""


def with_terminal(plan: Plan) -> Plan:
    """Return `plan` changed so that its only rank gets the user's terminal instead of a log, and may take any time.
    Raise PlanError if the plan has several ranks, or if a launcher or a batch script is between the agent and the rank.
    """
    if plan.world_size > 1 or plan.batch is not None or not launcher_facts(plan.launcher).by_agent:
        started = "a batch script" if plan.batch is not None else f"a job that {plan.launcher} starts"
        if plan.world_size > 1:
            started = f"a job of {plan.world_size} ranks"
        hint = "--debugpy RANK of run attaches a debugger to one rank of any job"
        raise PlanError(f"only a rank that the agent starts can have the terminal, and this is {started}", None, hint)
    return plan._replace(terminal=True, timeout=None, hang_timeout=0.0, watchdog_timeout=0.0)


def with_debugger(plan: Plan, rank: int, kind: str) -> Plan:
    """Return `plan` changed so that rank `rank` waits for a debugger to attach, and other ranks may wait for it without
    a time limit for hangs. `kind` is the type of its compute. Raise PlanError if there is no such rank, or if a
    debugger cannot reach it."""
    where = "--debugpy"
    if rank >= plan.world_size:
        raise PlanError(f"there is no rank {rank}", where, f"ranks are 0 to {plan.world_size - 1}")
    if kind not in _REACHED:
        what = f"a compute of type {kind} has no way from here to a port of its nodes"
        raise PlanError(what, where, "debug the job on this machine: worldsize debug, or --compute local")
    if plan.rehearsal is not None:
        raise PlanError("the nodes of a rehearsal have a network of their own", where, "leave one of them out")
    if plan.batch is not None:
        what = "a batch script starts its ranks itself"
        raise PlanError(what, where, "run the command of its srun: worldsize run --debugpy 0 -- COMMAND")
    return plan._replace(debugger=rank, inrank=(*plan.inrank, DEBUGGER), hang_timeout=0.0, watchdog_timeout=0.0)
