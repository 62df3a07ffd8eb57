"""Which runs are sampled: all, but those whose compute says no, batch scripts, and rehearsals."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from worldsize.errors import ConfigError
from worldsize.jobspec.config.config import Config
from worldsize.jobspec.config.load import load_config
from worldsize.jobspec.job import Job
from worldsize.plan.array import element_id
from worldsize.plan.launchers import LAUNCHERS
from worldsize.plan.plan import ArrayElement, BatchPlan, Plan, Rehearsal, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import SubmissionRequest
from worldsize.service.submission import plan_additions
from worldsize.service.submission.element_directories import element_plan
from worldsize.service.submission.plan_additions import with_metrics
from worldsize.service.submission.plan_job import plan_at, plan_job

PLAN = Plan("r", "t", "local", 1.0, 0, node_major_layout(2, 2), ("true",), {})
COMPUTES = {
    "local": '[compute.c]\ntype = "local"\n',
    "slurm": '[compute.c]\ntype = "slurm"\n',
    "hpcpack": '[compute.c]\ntype = "hpcpack"\nurl = "https://head"\nuser = "a"\nshare = {head = "/x", node = "/y"}\n',
}


def config_of(place: Path, text: str = "") -> Config:
    (place / "worldsize.toml").write_text(text)
    return load_config(str(place), {"WORLDSIZE_HOME": str(place), "WORLDSIZE_TRUST_PROJECT": "1"})


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_whatever_starts_the_ranks(launcher: str, tmp_path: Path) -> None:
    assert with_metrics(PLAN._replace(launcher=launcher), config_of(tmp_path)).metrics


@pytest.mark.parametrize("kind", COMPUTES)
def test_a_compute_of_any_type_can_say_no(kind: str, tmp_path: Path) -> None:
    plan = PLAN._replace(compute="c")
    for line, sampled in (("", True), ("metrics = true\n", True), ("metrics = false\n", False)):
        assert with_metrics(plan, config_of(tmp_path, COMPUTES[kind] + line)).metrics is sampled
    other = COMPUTES[kind].replace("compute.c", "compute.d")
    assert with_metrics(PLAN, config_of(tmp_path, other + "metrics = false\n")).metrics, "another compute's"


def test_a_projects_file_that_nobody_has_looked_at_can_say_no(tmp_path: Path) -> None:
    (tmp_path / "worldsize.toml").write_text("[compute.local]\nmetrics = false\n")
    config = load_config(str(tmp_path), {"WORLDSIZE_HOME": str(tmp_path), "WORLDSIZE_TRUST_PROJECT": "0"})
    assert not with_metrics(PLAN, config).metrics and config.notices == ()


@pytest.mark.parametrize("value", ['"no"', "0", "[]"])
def test_what_is_neither_true_nor_false_is_refused_where_it_stands(value: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as told:
        config_of(tmp_path, '[compute.c]\ntype = "local"\nmetrics = %s\n' % value)
    assert "metrics" in str(told.value) and "worldsize.toml:3" in str(told.value)


@pytest.mark.parametrize(
    "plan",
    [
        PLAN._replace(data_parallel="split", inrank=("data_parallel",)),
        PLAN._replace(options={"min_nodes": 1}),
        PLAN._replace(array=ArrayElement(1, 4, "a")),
        PLAN._replace(nodes=node_major_layout(256, 8)),
        PLAN._replace(gpus=4, visible_devices=True),
    ],
    ids=["data-parallel", "elastic", "element", "large", "gpus"],
)
def test_jobs_of_every_kind(plan: Plan, tmp_path: Path) -> None:
    assert with_metrics(plan, config_of(tmp_path)) == plan._replace(metrics=True)


@pytest.mark.parametrize("plan", [PLAN._replace(batch=BatchPlan()), PLAN._replace(rehearsal=Rehearsal(4))])
def test_neither_batch_scripts_nor_rehearsals(plan: Plan, tmp_path: Path) -> None:
    assert with_metrics(plan, config_of(tmp_path)) == plan


def test_an_installation_without_the_wing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_additions, "source_file", lambda *names: str(tmp_path.joinpath(*names)))
    assert not with_metrics(PLAN, config_of(tmp_path)).metrics


def test_a_plan_of_an_older_release_is_without() -> None:
    value = json.loads(PLAN._replace(metrics=True).to_json())
    assert Plan.from_value(value).metrics
    del value["metrics"]
    assert Plan.from_value(value) == PLAN


@pytest.mark.parametrize("line", ["", "[compute.local]\nmetrics = false\n"], ids=["sampled", "not"])
def test_elements_are_as_their_array(line: str, tmp_path: Path) -> None:
    environ = {"WORLDSIZE_HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    request = SubmissionRequest(Job(command="true", count=2), config_of(tmp_path, line), None, environ, str(tmp_path))
    planned = plan_at(plan_job(request, 1.0), request, RunPaths("/runs/a"))
    element = element_plan(planned, 1, RunPaths("/runs/a/" + element_id("a", 1)))
    assert planned.plan.metrics is element.metrics is (not line)
