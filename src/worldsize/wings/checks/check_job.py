"""The job whose run is a check: of the same nodes, environment and compute as another, and nothing to do there."""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.distributions.plain import PlainDistribution
from worldsize.jobspec.job import Job, Limits, element_job, element_values
from worldsize.plan.plan import Plan
from worldsize.wings.checks.asked import cpus_per_rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST = 1800
"""Seconds that a check may take on its nodes; a short limit lets a scheduler fit it in between others."""
TAG = "worldsize-check"
_NOTHING = Job()
_TIED_TO_THE_JOB = (
    "batch_script", "batch_source", "code", "inputs", "outputs", "name", "description", "services", "stage", "autotune",
    "matrix", "count", "at_once", "data_parallel", "virtual_gpus", "visible_devices", "conventions", "strict",
    "threads",
)  # fmt: skip
_SLURM_TIED_TO_THE_JOB = ("time", "signal", "requeue", "dependency")


def single_job(job: Job) -> Job:
    """Return the first run of an array, or the one that `job` is; a search without its trials."""
    job = job._replace(autotune=None)
    return element_job(job, element_values(job)[0])


def check_job(job: Job, plan: Plan, settings: ComputeSettings) -> Job:
    """Return the job that checks the nodes of `job`, whose `plan` it has on a compute of these `settings`: one rank on
    each node, which does nothing."""
    return job._replace(
        **{name: getattr(_NOTHING, name) for name in _TIED_TO_THE_JOB},
        command="true",
        argv=("true",),
        display_name=f"check of {plan.name}",
        tags={**job.tags, TAG: "true"},
        distribution=PlainDistribution(),
        environment_variables=_variables(job, plan),
        limits=Limits(float(LONGEST)),
        slurm=_slurm_options(job, plan, settings),
        hpcpack={key: value for key, value in job.hpcpack.items() if key != "rdzv_endpoint"},
    )


def _variables(job: Job, plan: Plan) -> dict[str, str]:
    """Return the job's own variables; those that an expression makes, as the plan has them: the inputs are not
    there."""
    return {
        name: plan.environment.get(name, "") if "${{" in text else text
        for name, text in job.environment_variables.items()
    }


def _slurm_options(job: Job, plan: Plan, settings: ComputeSettings) -> Mapping[str, Any]:
    """What the job says to Slurm, with the CPUs of all its ranks for the one rank of a node, and a short time."""
    if settings.type != "slurm":
        return job.slurm
    kept = {key: value for key, value in job.slurm.items() if key not in _SLURM_TIED_TO_THE_JOB}
    ranks = max(len(node.ranks) for node in plan.nodes)
    return {**kept, "cpus_per_rank": ranks * (cpus_per_rank(settings, job) or 1), "time": str(LONGEST // 60)}
