"""The job whose run is a check. It has the nodes, environment and compute of another job, but its ranks do nothing."""

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
"""Seconds that a check may take on its nodes. With a short limit, a scheduler can fit it in between other jobs."""
TAG = "worldsize-check"
_NOTHING = Job()
_TIED_TO_THE_JOB = (
    "batch_script", "batch_source", "code", "inputs", "outputs", "name", "description", "services", "stage", "autotune",
    "matrix", "count", "at_once", "data_parallel", "virtual_gpus", "visible_devices", "conventions", "strict",
    "threads",
)  # fmt: skip
_SLURM_TIED_TO_THE_JOB = ("time", "signal", "requeue", "dependency")


def single_job(job: Job) -> Job:
    """Return the first run of a job array as a job, or the job itself if it is no array. A hyperparameter search is
    returned without its trials."""
    job = job._replace(autotune=None)
    return element_job(job, element_values(job)[0])


def check_job(job: Job, plan: Plan, settings: ComputeSettings) -> Job:
    """Return the job that runs the node check on the nodes of `job`. It has one rank on each node, which does nothing.
    `plan` is the plan of `job` on a compute with these `settings`."""
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
    """Return the job's own environment variables for the node check's job. The value of a variable with an expression
    is read from the plan, because a check has no inputs."""
    return {
        name: plan.environment.get(name, "") if "${{" in text else text
        for name, text in job.environment_variables.items()
    }


def _slurm_options(job: Job, plan: Plan, settings: ComputeSettings) -> Mapping[str, Any]:
    """Return the Slurm options of the node check's job: those of `job`, with the CPUs of all ranks of a node for its
    single rank, and a short time limit. On other computes, return the job's options unchanged."""
    if settings.type != "slurm":
        return job.slurm
    kept = {key: value for key, value in job.slurm.items() if key not in _SLURM_TIED_TO_THE_JOB}
    ranks = max(len(node.ranks) for node in plan.nodes)
    return {**kept, "cpus_per_rank": ranks * (cpus_per_rank(settings, job) or 1), "time": str(LONGEST // 60)}
