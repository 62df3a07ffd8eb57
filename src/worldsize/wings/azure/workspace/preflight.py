"""Checks that find the problems of a job in a workspace, from the job and the files that it names. The service is not
queried."""

from __future__ import annotations

import os

from worldsize.common.azure_sizes import azure_size
from worldsize.compute.base import CheckResult
from worldsize.errors import JobError
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.wings.azure.storage.environment_asset import environment_value
from worldsize.wings.azure.workspace.agent_job import RUN_INPUT
from worldsize.wings.azure.workspace.service_job import export_findings
from worldsize.wings.azure.workspace.settings import WorkspaceSettings
from worldsize.wings.azure.workspace.submission import with_environment

_SWITCHES = {"NCCL_IB_DISABLE": ("1",), "NCCL_NET": ("socket", "Socket"), "OMPI_MCA_btl": ("tcp,self", "self,tcp")}
"""Variables, and those of their values that switch InfiniBand off."""


def check_job(job: Job, plan: Plan, workspace: WorkspaceSettings) -> list[CheckResult]:
    """Return all problems of `job` that would occur in the Azure ML workspace, as a list of CheckResult, without
    querying the service."""
    found = [*_impossible(job, plan), *_environment(job, workspace), *_fabric(job)]
    if not workspace.agent:
        found += export_findings(with_environment(job, workspace), {each.where for each in found})
    return found


def _environment(job: Job, workspace: WorkspaceSettings) -> list[CheckResult]:
    """Return the problems that keep Azure ML from building the job's environment, as a list of CheckResult: it is
    missing, or cannot be built there."""
    if job.environment is None and workspace.environment is None:
        what = "Azure ML runs a job in an environment, and this one names none"
        hint = "environment: azureml:NAME@latest, or {image: …, conda_file: …}; or `environment` of the compute"
        return [CheckResult("error", what, "environment", hint)]
    try:
        environment_value(with_environment(job, workspace))
    except JobError as error:
        return [CheckResult("error", error.what, error.where, error.hint)]
    return []


def _impossible(job: Job, plan: Plan) -> list[CheckResult]:
    found = []
    if plan.batch is not None:
        what = "a batch script's srun starts its ranks, and there is none on Azure ML"
        found.append(CheckResult("error", what, "batch_script", "set the command of each rank: `command` instead"))
    if plan.secrets or plan_secret_values(plan):
        what = "every user who may read the workspace can read its jobs' contents"
        hint = "let the script read it from the workspace's key vault, by the identity of the job or of the compute"
        found.append(CheckResult("error", what, "secrets", hint))
    if job.modules:
        found.append(
            CheckResult("error", "images have no modules", "modules", "leave it out, or build an image with them")
        )
    if job.stage:
        found.append(CheckResult("error", "nodes of Azure ML reach the network", "stage", "leave it out"))
    if RUN_INPUT in job.inputs:
        found.append(
            CheckResult("error", "is the name of one of worldsize's own inputs", f"inputs.{RUN_INPUT}", "rename it")
        )
    for name, output in job.outputs.items():
        if output.path and os.path.isabs(output.path):
            what = f"{output.path} is a directory on this machine, which no node sees"
            found.append(
                CheckResult("error", what, f"outputs.{name}.path", "leave it out: `worldsize fetch` fetches it")
            )
    return found


def _fabric(job: Job) -> list[CheckResult]:
    """Return a notice for each environment variable of the job that switches InfiniBand off, if its machines have
    InfiniBand."""
    size = azure_size(job.resources.instance_type or "")
    if size is None or not size.ports:
        return []
    return [
        CheckResult(
            "notice",
            f"{name}={value} switches off InfiniBand, which {job.resources.instance_type} has",
            f"environment_variables.{name}",
            "leave it out, unless NCCL's log shows that it helps",
            id="environment",
        )
        for name, values in _SWITCHES.items()
        for value in [job.environment_variables.get(name, "")]
        if value in values
    ]
