"""`type: mpi`, from a job file to what starts its ranks."""

from __future__ import annotations

import pickle

import pytest

import worldsize
from worldsize.jobspec.dump import dump_job
from worldsize.jobspec.job import Job
from worldsize.jobspec.overrides import with_world
from worldsize.jobspec.reading.job_file import parse_job
from worldsize.jobspec.reading.set_option import apply_overrides
from worldsize.wings.mpi.distribution import MpiDistribution


def test_it_is_read_in_any_case_and_written() -> None:
    job = parse_job("command: x\ndistribution: {type: Mpi, process_count_per_instance: 3}", "job.yml").job
    assert job.distribution == MpiDistribution(3)
    assert parse_job(dump_job(job), "job.yml").job == job
    assert worldsize.MpiDistribution is MpiDistribution and pickle.loads(pickle.dumps(job)) == job


def test_the_command_line_changes_it_as_others() -> None:
    job = Job(command="x", distribution=MpiDistribution(1))
    assert with_world(job, "1x3").distribution == MpiDistribution(3)
    assert apply_overrides(Job(command="x"), ["distribution.type=mpi"]).distribution == MpiDistribution()


@pytest.mark.parametrize(
    ("launcher", "found"),
    [("auto", ("mpirun", {"otherwise": "direct"})), ("mpirun", ("mpirun", {})), ("srun", ("srun", {}))],
)
def test_what_starts_its_ranks(launcher: str, found: object) -> None:
    arrangement = MpiDistribution(2, launcher).arrange(2)
    assert (arrangement.launcher, arrangement.options) == found
