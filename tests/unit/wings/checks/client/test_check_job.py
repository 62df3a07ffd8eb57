"""The job that a check is: the same nodes, and nothing to do."""

from __future__ import annotations

from pathlib import Path

import pytest
from checked_jobs import cluster, plan_for

from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.jobspec.job import Input, Job, Output, Resources
from worldsize.wings.checks.check_job import check_job, single_job

TRAIN = Job(
    command="python train.py ${{inputs.lr}}",
    code="/home/ada/code",
    display_name="mnist",
    distribution=PyTorchDistribution(4),
    resources=Resources(3),
    inputs={"lr": 0.1, "data": Input(path="/data")},
    outputs={"model": Output()},
    environment="torch-env",
    environment_variables={"A": "1", "LR": "${{inputs.lr}}"},
    data_parallel="split",
    slurm={"partition": "gpu", "gpus_per_node": "4", "time": "1-0", "requeue": True},
    setup=("ulimit -n 4096",),
)


def test_one_rank_on_each_node_in_the_same_environment(tmp_path: Path) -> None:
    job = check_job(TRAIN, plan_for(TRAIN._replace(data_parallel=None)), cluster(tmp_path))
    plan = plan_for(job)
    assert [len(node.ranks) for node in plan.nodes] == [1, 1, 1] and plan.launcher == "direct"
    assert (job.argv, job.code, job.inputs, job.outputs, job.data_parallel) == (("true",), None, {}, {}, None)
    assert (job.environment, job.setup) == (TRAIN.environment, TRAIN.setup)
    assert job.environment_variables == {"A": "1", "LR": "0.1"}
    assert plan.name == "check of mnist" and job.tags == {"worldsize-check": "true"}


def test_a_scheduler_is_asked_for_the_cpus_of_all_ranks_and_a_short_time(tmp_path: Path) -> None:
    plan = plan_for(TRAIN._replace(data_parallel=None))
    slurm = {"partition": "gpu", "gpus_per_node": "4", "cpus_per_rank": 4, "time": "30"}
    assert check_job(TRAIN, plan, cluster(tmp_path)).slurm == slurm
    configured = cluster(tmp_path, options={"cpus_per_rank": 6, "time": "7-0"})
    assert check_job(TRAIN, plan, configured).slurm == {**slurm, "cpus_per_rank": 24}
    assert check_job(TRAIN, plan, ComputeSettings()).slurm == TRAIN.slurm, "which no other compute reads"


def test_of_an_array_the_first_run_is_checked() -> None:
    job = single_job(TRAIN._replace(matrix={"lr": (0.5, 0.1)}, at_once=1))
    assert job.inputs["lr"] == 0.5 and not job.matrix and job.at_once is None
    assert single_job(TRAIN._replace(count=3)).count is None


@pytest.mark.parametrize("kind", ["slurm", "hpcpack", "local"])
def test_a_check_of_a_check_is_the_same(kind: str, tmp_path: Path) -> None:
    settings = cluster(tmp_path)._replace(type=kind)
    once = check_job(TRAIN, plan_for(TRAIN._replace(data_parallel=None)), settings)
    again = check_job(once, plan_for(once), settings)
    assert again._replace(display_name=None, slurm={}) == once._replace(display_name=None, slurm={})
