"""The plan of a rehearsal: in whatever directory, its ranks find the virtual nvidia-smi."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.job import Job
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import SubmissionRequest
from worldsize.service.submission.plan_job import plan_at, plan_job
from worldsize.service.submission.rank_packages import PROGRAMS, write_packages

HERE, THERE = RunPaths("/runs/20260101-000000-000abc"), RunPaths("/elsewhere/20260101-000001-000abd")
JOBS = {
    "alone": Job(command="true", virtual_gpus=2),
    "with setup": Job(command="true", virtual_gpus=2, setup=("export A=1",)),
    "in an environment": Job(command="true", virtual_gpus=2, environment={"variables": {"A": "1"}}),
    "with both": Job(
        command="true", virtual_gpus=2, environment={"variables": {"A": "1"}}, setup=("export B=1", "export C=1")
    ),
}


def request_of(job: Job, tmp_path: Path) -> SubmissionRequest:
    environ = {"WORLDSIZE_HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    return SubmissionRequest(job, load_config(str(tmp_path), environ), None, environ, str(tmp_path))


@pytest.mark.parametrize("job", JOBS.values(), ids=list(JOBS))
def test_of_two_directories_the_plans_differ_in_the_directories_alone(job: Job, tmp_path: Path) -> None:
    request = request_of(job, tmp_path)
    planned = plan_job(request, 1.0)
    first, second = plan_at(planned, request, HERE), plan_at(planned, request, THERE)
    assert plan_at(second, request, HERE).plan == first.plan != second.plan
    text = first.plan.to_json().replace(HERE.root, THERE.root)
    assert text.replace(HERE.run_id, THERE.run_id) == second.plan.to_json()


@pytest.mark.parametrize("job", JOBS.values(), ids=list(JOBS))
def test_its_programs_come_before_all_others(job: Job, tmp_path: Path) -> None:
    request = request_of(job, tmp_path)
    plan = plan_at(plan_job(request, 1.0), request, HERE).plan
    programs = os.path.join(HERE.root, PROGRAMS)
    if plan.setup:
        said = [line.startswith("export PATH=%s:" % programs) for line in plan.setup]
        assert said.count(True) == 1 and not plan.path
        assert plan.setup[len(plan.setup) - len(job.setup) :] == job.setup and not any(said[-len(job.setup) :])
    else:
        assert plan.path[0] == programs and plan.path.count(programs) == 1


def test_the_program_lies_in_the_run_and_can_be_executed(tmp_path: Path) -> None:
    paths = RunPaths(str(tmp_path / "run"))
    os.makedirs(paths.inrank)
    write_packages(("virtual_gpu",), paths, str(tmp_path / "cache"))
    program = os.path.join(paths.root, PROGRAMS, "nvidia-smi")
    assert os.stat(program).st_mode & 0o777 == 0o700 and os.listdir(os.path.dirname(program)) == ["nvidia-smi"]
    with os.popen("WORLDSIZE_VIRTUAL_GPUS=2 sh %s -L" % program) as said:
        assert len(said.readlines()) == 2
