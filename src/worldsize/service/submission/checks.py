"""The decision whether the nodes and the script of a job are checked before its ranks start. The checks themselves
belong to the wing."""

from __future__ import annotations

from worldsize.compute.base import CheckResult, ComputeFacts
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.service.request import SubmissionRequest
from worldsize.service.submission.plain_script import plain_script


def with_check(plan: Plan, request: SubmissionRequest, job: Job, facts: ComputeFacts) -> Plan:
    """Return `plan` with the checks of the nodes that its agents make before they start ranks. It is returned unchanged
    if the agents check nothing, or if this installation is without the wing for checks."""
    if not _are_nodes_checked(plan, request, facts):
        return plan
    from worldsize.service.providers import find_provider  # few runs need this module

    checks = find_provider("checks")
    if checks is None:
        return plan
    checked: Plan = checks.with_check(plan, request, job, facts)
    return checked


def _are_nodes_checked(plan: Plan, request: SubmissionRequest, facts: ComputeFacts) -> bool:
    """Return whether the agents of a run check their nodes before the ranks start: as `request.check` states, else by
    default on several real nodes and where GPUs are real. False by default for a batch script, a rehearsal, and a
    compute with `check = false`."""
    if request.check is not None:
        return bool(request.check)
    if plan.batch is not None or plan.rehearsal is not None or request.config.computes[plan.compute].check is False:
        return False
    several = len(plan.nodes) > 1
    return (several and not facts.shared_host) or bool(plan.gpus and not (several and facts.shared_host))


def script_notices(request: SubmissionRequest, job: Job, plan: Plan, facts: ComputeFacts) -> list[CheckResult]:
    """Return the problems of the job's Python script that a check of its source text shows, as a list of CheckResult.
    There are none for a single rank, unless torchrun's `--nproc_per_node` starts further ones, nor where checks are
    switched off."""
    if (plan.world_size == 1 and "--nproc" not in job.command) or ".py" not in job.command:
        return []
    if request.check is not None or plan.batch is not None:
        return []
    if request.config.computes[plan.compute].check is False:
        return []
    if job.code is not None and plain_script(job.code, plan.argv):
        return []
    from worldsize.service.providers import find_provider

    checks = find_provider("checks")
    return list(checks.script_notices(request, job, plan, facts)) if checks else []
