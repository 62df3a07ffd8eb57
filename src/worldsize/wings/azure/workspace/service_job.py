"""A run as a native job of the service, without agents: the job that `worldsize export azureml` writes."""

from __future__ import annotations

from collections.abc import Collection

from worldsize.compute.base import CheckResult
from worldsize.errors import PlanError
from worldsize.jobspec.dump import dump_tree
from worldsize.jobspec.job import Job
from worldsize.jobspec.reading.job_file import parse_job
from worldsize.plan.plan import Plan
from worldsize.wings.azure.export.job import export_job
from worldsize.wings.azure.export.rows import IMPOSSIBLE, LEFT_OUT

_ROOT = "/"
_ASKED_FOR = "full"
"""The mode of a check that is a run of its own."""


def exported_job(job: Job) -> Job:
    """Return the Job that results from exporting `job` without its compute to an Azure ML job file and parsing that
    file again, with the environment of `job` unchanged. The service is requested to run this job."""
    exported = export_job(job._replace(compute=None), _ROOT)
    tree = {key: value for key, value in exported.tree.items() if key != "environment"}
    return parse_job(dump_tree(tree), f"{_ROOT}job.yml").job._replace(environment=job.environment)


def export_findings(job: Job, said: Collection[str | None]) -> list[CheckResult]:
    """Return what an export of `job` to Azure ML reports, as a list of CheckResult: an error for each key that cannot
    be exported, a notice for each key that is left out, and a notice for each environment variable with an expression,
    which is sent unchanged. Leave out the keys in `said`, which are reported already, and an environment that cannot be
    exported, which is reported where it is created."""
    found = []
    for row in export_job(job._replace(compute=None), _ROOT).rows:
        key = row.key.partition(".")[0]
        if row.verdict == IMPOSSIBLE and key != "environment" and not {key, row.key} & {*said}:
            hint = "leave the key out, or remove `agent = false` from the compute"
            found.append(CheckResult("error", row.text, row.key, hint))
        elif row.verdict == LEFT_OUT and not {key, row.key} & {*said}:
            found.append(CheckResult("notice", f"is left out: {row.text}", row.key, id="azure-key-left-out"))
    found += [
        CheckResult(
            "notice",
            "is sent as it is: only worldsize's agent is known to resolve expressions there",
            where,
            id="azure-key-left-out",
        )
        for name, value in job.environment_variables.items()
        if "${{" in value and (where := f"environment_variables.{name}") not in said
    ]
    return found


def without_agents(plan: Plan) -> Plan:
    """Return `plan` without the work that only worldsize's agents do: metrics, setup and checks. Raise PlanError if the
    plan is a search or a full check, which consist of such work."""
    if "search" in plan.options or plan.options.get("check", {}).get("mode") == _ASKED_FOR:
        what = "trials and node checks need worldsize's agent, and this compute runs without it"
        raise PlanError(what, "agent", "leave out `agent = false` of the compute")
    options = {key: value for key, value in plan.options.items() if key != "check"}
    return plan._replace(metrics=False, setup=(), options=options)
