"""A job is planned and checked once, in no directory; the plan of a directory differs in what names it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.compute.base import ComputeFacts
from worldsize.compute.local.compute import LocalCompute
from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.job import Job, Output
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import PlannedJob, Progress, SubmissionRequest
from worldsize.service.submission import plan_job as planning
from worldsize.service.submission.element_directories import element_plan
from worldsize.service.submission.plan_job import plan_at, plan_job
from worldsize.service.submission.submit import start

HERE, THERE = RunPaths("/runs/20260101-000000-000abc"), RunPaths("/elsewhere/20260101-000001-000abd")
COMMAND = "echo ${{outputs.model}}"
JOBS = {
    "command": Job(command=COMMAND, outputs={"model": Output()}, environment_variables={"A": "${{outputs.model}}/a"}),
    "words": Job(command="echo", argv=("echo", "${{outputs.model}}"), outputs={"model": Output()}),
    "secrets": Job(command="true", secrets=("TOKEN",), environment_variables={"API_KEY": "${{outputs.model}}"},
                   outputs={"model": Output()}),
    "array": Job(command=COMMAND, outputs={"model": Output()}, inputs={"lr": 0.1}, matrix={"lr": (0.1, 0.2)}),
    "setup": Job(command="true", setup=("export A=1",)),
}  # fmt: skip


def request_of(job: Job, tmp_path: Path) -> SubmissionRequest:
    environ = {"WORLDSIZE_HOME": str(tmp_path), "PATH": os.environ["PATH"], "TOKEN": "hunter2hunter2"}
    return SubmissionRequest(job, load_config(str(tmp_path), environ), None, environ, str(tmp_path))


@pytest.mark.parametrize("job", JOBS.values(), ids=list(JOBS))
def test_of_two_directories_the_plans_differ_in_the_directories_alone(job: Job, tmp_path: Path) -> None:
    request = request_of(job, tmp_path)
    planned = plan_job(request, 1.0)
    first, second = plan_at(planned, request, HERE), plan_at(planned, request, THERE)
    assert first.plan.run_id.startswith(HERE.run_id) and first.paths.root.startswith(HERE.root)
    assert plan_at(second, request, HERE).plan == first.plan != second.plan
    text = first.plan.to_json().replace(HERE.root, THERE.root)
    assert text.replace(HERE.run_id, THERE.run_id) == second.plan.to_json()


def test_each_element_has_its_own_value_of_a_variable_that_is_called_like_a_secret(tmp_path: Path) -> None:
    job = Job(
        command="true",
        inputs={"key": ""},
        matrix={"key": ("first-of-all", "second-of-all")},
        environment_variables={"API_KEY": "${{inputs.key}}"},
    )
    request = request_of(job, tmp_path)
    planned = plan_at(plan_job(request, 1.0), request, HERE)
    plans = [element_plan(planned, number, RunPaths("%s_%d" % (HERE.root, number))) for number in range(2)]
    assert [plan.environment["API_KEY"] for plan in plans] == ["first-of-all", "second-of-all"]
    assert [plan.array.element for plan in plans if plan.array] == [0, 1]


@pytest.mark.heavy
def test_no_file_has_the_secret_of_a_variable_that_varies(tmp_path: Path) -> None:
    """Found by review: the array's files had those of all elements but the first, by the input that is named."""
    choices = ("first-of-all", "second-of-all", "third-of-all")
    job = Job(
        command="true",
        inputs={"choice": ""},
        matrix={"choice": choices},
        environment_variables={"API_KEY": "x-${{inputs.choice}}", "HF_TOKEN": "${{inputs.choice}}"},
    )
    written: dict[str, str] = {}

    def read_all(paths: RunPaths) -> None:
        files = (each for each in Path(paths.root).rglob("*.*") if each.is_file() and each.name != "secrets.json")
        written.update((str(each.relative_to(paths.root)), each.read_text(errors="replace")) for each in files)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(request_of(job, tmp_path), Progress(), read_all)
    assert {"array.json", "job.yml", "record.json", "submission.txt"} <= written.keys()
    assert [(name, choice) for name, text in written.items() for choice in choices if choice in text] == []


@pytest.mark.heavy
@pytest.mark.parametrize("job", [Job(command="true"), Job(command="true", count=2)], ids=["run", "array"])
def test_a_submission_plans_once_and_asks_its_compute_once(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    facts, make_plan = LocalCompute.facts, planning.make_plan

    def counted_facts(self: LocalCompute, job: Job) -> ComputeFacts:
        asked.append("facts")
        return facts(self, job)

    def counted_plan(*values: object) -> object:
        asked.append("plan")
        return make_plan(*values)  # type: ignore[arg-type]

    monkeypatch.setattr(LocalCompute, "facts", counted_facts)
    monkeypatch.setattr(planning, "make_plan", counted_plan)

    def give_up(paths: RunPaths) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        start(request_of(job, tmp_path), Progress(), give_up)
    assert asked == ["facts", "plan"]


def test_what_was_planned_before_something_was_fetched_is_not_checked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(Job(command="true"), tmp_path)
    former: PlannedJob = plan_job(request, 1.0)
    monkeypatch.setattr(planning, "preflight", lambda *_: pytest.fail("checked again"))
    monkeypatch.setattr(LocalCompute, "facts", lambda *_: pytest.fail("asked again"))
    assert plan_job(request, 1.0, former).plan == former.plan
