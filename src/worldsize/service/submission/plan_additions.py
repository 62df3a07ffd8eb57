"""Parts of a plan in addition to its nodes and ranks: labels, services, secrets, metrics, notification, and the way in
which its ranks start."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.common.named_tuple import Any
from worldsize.compute.base import CheckResult, ComputeFacts
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.job import Job
from worldsize.plan.plan import NO_PYTHON, Plan, RankStart
from worldsize.plan.secrets_file import plan_secret_values
from worldsize.registry import find_module, source_file
from worldsize.service.request import KeyOrigins
from worldsize.service.secrets import named_secrets, rank_only_variables
from worldsize.service.submission.plain_script import plain_script
from worldsize.trust.secrets import mask_tree, mask_values


def labels_of(job: Job) -> dict[str, Any]:
    """Return the labels of the job for its plan, which are experiment_name, description and tags as far as they are
    set, with secrets in them masked."""
    said = {"experiment_name": job.experiment_name, "description": job.description, "tags": dict(job.tags)}
    return {name: mask_tree(value, sparing=True) for name, value in said.items() if value}


def service_plans(job: Job) -> Mapping[str, Mapping[str, Any]]:
    """Return the plans of the services (`services` of the job) that the run's first node starts, as a mapping of name
    to plan. The mapping is empty if this installation is without the wing."""
    wing = find_module("wings.services.job") if job.services else None
    return wing.service_plans(job) if wing is not None else {}


def service_notices(job: Job, origins: KeyOrigins) -> list[CheckResult]:
    """Return notices about services of the job that its run does not start, as a list of CheckResult; none if this
    installation is without the wing."""
    wing = find_module("wings.services.job") if job.services else None
    return list(wing.notices(job, origins)) if wing is not None else []


def with_secrets(plan: Plan, job: Job, environ: Mapping[str, str]) -> Plan:
    """Return `plan` with the values of the job's secret variables, read from `environ`, in the environment of its
    ranks, and with secrets masked in its name and labels."""
    if closed := rank_only_variables(job):
        plan = plan._replace(environment={**plan.environment, **named_secrets(job, environ)}, secrets=closed)
    values = plan_secret_values(plan)
    return plan._replace(name=mask_values(plan.name, values), labels=mask_values(plan.labels, values))


def with_metrics(plan: Plan, config: Config) -> Plan:
    """Return `plan` with sampling of metrics by its agents enabled, unless its compute has `metrics = false` or this
    installation is without the wing. Metrics are also disabled for a batch script, which has its own environment, and
    for a rehearsal, which measures nothing."""
    if config.computes[plan.compute].metrics is False or plan.batch is not None or plan.rehearsal is not None:
        return plan
    return plan._replace(metrics=os.path.isfile(source_file("wings", "metrics", "agent", "sampler.py")))


def with_notify(plan: Plan, job: Job, configured: str) -> Plan:
    """Return `plan` with the command that is executed to notify of the run: the job's `notify`, else the value
    `configured`. Raise ConfigError if there is such a command and this installation is without the wing."""
    command = (configured if job.notify is None else job.notify).strip()
    if command:
        from worldsize.service.providers import provider

        provider("notifications")
    return plan._replace(notify=command)


def with_start(plan: Plan, job: Job, facts: ComputeFacts, configured: tuple[str, ...], image: str | None) -> Plan:
    """Return `plan` with the way in which its ranks start: each as a new Python, or warm, forked from a process with
    preloaded modules. `configured` is the value of `preload` for a job that sets none. `image` is the container image
    of the run, or None."""
    if max(len(node.ranks) for node in plan.nodes) < 2:
        return plan._replace(start=RankStart(reason="each node has one rank"))
    if not facts.agents:
        return plan._replace(start=RankStart(reason="no agent starts the ranks"))
    if not any("python" in word for word in plan.argv):
        return plan._replace(start=RankStart(reason=NO_PYTHON))
    preload = job.preload or configured
    name = plain_script(job.code, plan.argv) if preload == ("auto",) and job.code is not None else ""
    if name:
        return plan._replace(start=RankStart(reason=f"{name} imports no module at its top that is known to be safe"))
    wing = find_module("wings.warm_start.decision")
    if wing is None:
        return plan._replace(start=RankStart(reason="this installation lacks `warm_start`"))
    return plan._replace(start=wing.rank_start(job, plan, preload, image, facts.shared_host))
