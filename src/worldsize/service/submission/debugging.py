"""What a plan is for somebody who debugs its ranks."""

from __future__ import annotations

from worldsize.errors import PlanError
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.plan import Plan


def with_terminal(plan: Plan) -> Plan:
    """`plan` with the terminal for its only rank, which may then take any time. PlanError where a launcher or a batch
    script stands between the agent and the rank."""
    if plan.world_size > 1 or plan.batch is not None or not launcher_facts(plan.launcher).by_agent:
        started = "a batch script" if plan.batch is not None else f"a job that {plan.launcher} starts"
        if plan.world_size > 1:
            started = f"a job of {plan.world_size} ranks"
        hint = "--debugpy RANK of run attaches a debugger to one rank of any job"
        raise PlanError(f"only a rank that the agent starts can have the terminal, and this is {started}", None, hint)
    return plan._replace(terminal=True, timeout=None, hang_timeout=0.0)
