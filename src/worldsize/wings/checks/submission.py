"""The functions of this wing that a submission calls: for the check by its agents, and for notices about its script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.compute.base import CheckResult, ComputeFacts
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.service.request import KeyOrigins, SubmissionRequest


def with_check(plan: Plan, request: SubmissionRequest, job: Job, facts: ComputeFacts) -> Plan:
    """Return `plan` with the order for the node check as `check` among its options: {mode, only, asked}, as its agents
    read it. The mode is CHEAP unless the request sets another one."""
    from worldsize.wings.checks.agent.node_context import CHEAP

    check = {"mode": CHEAP, "only": [], **(request.check or {})}
    if "asked" not in check:
        from worldsize.wings.checks.asked import asked_of

        check["asked"] = asked_of(plan, request, job, facts, _script_facts(request, job, plan, facts))
    return plan._replace(options={**plan.options, "check": check})


def may_start_python(argv: Sequence[str]) -> bool:
    """Return whether a command may name a Python file or module. For any other command there is no script to read."""
    return any(".py" in word or "-m" in word for word in argv)


def _script_facts(request: SubmissionRequest, job: Job, plan: Plan, facts: ComputeFacts) -> Mapping[str, Any]:
    if job.code is None or not may_start_python(plan.argv):
        return {}
    from worldsize.wings.checks.script_rows import facts_of_script

    return facts_of_script(plan, job, facts, request.config.computes[plan.compute])


def script_notices(request: SubmissionRequest, job: Job, plan: Plan, facts: ComputeFacts) -> list[CheckResult]:
    """Return the notices, as CheckResults, about problems in the text of the job's script; an empty list if the job has
    no code."""
    if job.code is None:
        return []
    from worldsize.wings.checks.script_rows import notices_of

    return notices_of(plan, job, facts, request.config.computes[plan.compute])


def offline_notices(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    """Return the notices about downloads that are not staged, for a job on nodes that reach no network."""
    from worldsize.wings.checks.script_rows import download_notices

    return [found._replace(where=_with_origin(found.where, origins)) for found in download_notices(job)]


def _with_origin(where: str | None, origins: KeyOrigins) -> str | None:
    return origins.of("command") if where == "command" else where


def is_undistributed(script: str, nodes: int, ranks_per_node: int) -> bool:
    """Return whether each rank of a run on `nodes` nodes with `ranks_per_node` ranks would train on its own, according
    to the text of the file `script`."""
    from worldsize.wings.checks.script_rows import trains_alone

    return trains_alone(script, nodes, ranks_per_node)
