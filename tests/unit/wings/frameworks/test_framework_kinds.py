"""TensorFlow's roles, JAX's conventions, Ray's keys."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from worldsize.compute.base import ComputeFacts
from worldsize.errors import JobError, PlanError
from worldsize.jobspec.distribution import processes_per_instance
from worldsize.jobspec.dump import dump_job
from worldsize.jobspec.job import Job, Resources
from worldsize.jobspec.overrides import with_world
from worldsize.jobspec.reading.job_file import parse_job
from worldsize.plan.run_paths import RunPaths
from worldsize.service.submission.make_plan import make_plan
from worldsize.wings.frameworks.jax import JaxDistribution
from worldsize.wings.frameworks.ray import RayDistribution
from worldsize.wings.frameworks.tensorflow import TensorFlowDistribution
from worldsize.wings.python_surface.command_job import command

SHARED = ComputeFacts(None, 8, shared_host=True)


def plan(job: Job, facts: ComputeFacts = SHARED):
    return make_plan(job, facts, "local", RunPaths("/runs/20260101-000000-000abc"), 1.5, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{type: TensorFlow, parameter_server_count: 1, worker_count: 2}", TensorFlowDistribution(1, 2)),
        ("{type: ray, port: 6379, include_dashboard: true}", RayDistribution(6379, include_dashboard=True)),
        ("{type: JAX, process_count_per_instance: 3}", JaxDistribution(3)),
    ],
)
def test_each_is_read_and_written(text: str, expected: Any) -> None:
    job = parse_job("command: x\ndistribution: " + text, "job.yml").job
    assert job.distribution == expected
    assert parse_job(dump_job(job), "job.yml").job == job


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("worker_count: 0", "must be at least 1"),
        ("parameter_server_count: -1", "must be at least 0"),
    ],
)
def test_what_is_wrong_is_said(keys: str, message: str) -> None:
    with pytest.raises(JobError, match=message) as caught:
        parse_job("command: x\ndistribution: {type: tensorflow, %s}" % keys, "job.yml")
    assert caught.value.where == "job.yml:2"


@pytest.mark.parametrize("kind", [TensorFlowDistribution, RayDistribution])
def test_keywords_that_a_class_does_not_have_only_warn(kind: Any) -> None:
    with pytest.warns(UserWarning, match="%s has no added_property, more: ignored" % kind.__name__) as caught:
        made = kind(added_property=7, more={"deep": 1})
    assert made == kind() and [warning.filename for warning in caught] == [__file__]
    assert str(inspect.signature(TensorFlowDistribution)).startswith("(parameter_server_count")


def test_a_world_of_roles_sets_nodes_only() -> None:
    job = Job(command="x", distribution=TensorFlowDistribution(1, 2))
    assert processes_per_instance(job.distribution) is None
    assert with_world(job, "3").resources.instance_count == 3
    with pytest.raises(JobError, match="lays out roles"):
        with_world(job, "3x2")


def test_the_guides_tensorflow_sample() -> None:
    job = command(
        code="./src",
        command="python main.py --epochs ${{inputs.epochs}} --model-dir ${{inputs.model_dir}}",
        inputs={"epochs": 1, "model_dir": "outputs/keras-model"},
        environment="AzureML-tensorflow-2.4-ubuntu18.04-py37-cuda11-gpu@latest",
        compute="cpu-cluster",
        instance_count=2,
        distribution={"type": "tensorflow", "parameter_server_count": 1, "worker_count": 2, "added_property": 7},
        display_name="tensorflow-mnist-distributed-example",
    )
    built, warnings = job.build()
    assert built.distribution == TensorFlowDistribution(1, 2)
    assert warnings == ["command(): distribution.added_property: is not a key of tensorflow; ignored"]
    job.distribution = TensorFlowDistribution(parameter_server_count=1, worker_count=2)
    assert job.build() == (built, [])


def test_who_a_tensorflow_job_is_over_with():
    def found(*keys):
        made = plan(Job("true", resources=Resources(2), distribution=TensorFlowDistribution(*keys)))
        return made.ports, made.leaders, made.lingering

    assert found(0, 2) == ("rank", (), ())
    assert found(1, 2) == ("rank", (0,), ("worker", "evaluator"))
    assert found(1, 2, True) == ("rank", (0,), ("evaluator",))
    assert found(0, 2, True, True) == ("rank", (0, 1, 2), ("evaluator",))


def test_parameter_servers_need_no_gpu():
    job = Job("true", distribution=TensorFlowDistribution(2, 2), visible_devices=True)
    assert plan(job, ComputeFacts(2, 8, True)).world_size == 4
    with pytest.raises(PlanError, match="3 processes per node, but a node has 2 GPUs"):
        plan(job._replace(distribution=TensorFlowDistribution(0, 3)), ComputeFacts(2, 8, True))


def test_what_a_framework_reads_is_in_force_whatever_the_job_narrows_to():
    job = Job("true", distribution=JaxDistribution(2))
    assert plan(job).conventions == ()
    assert plan(job._replace(conventions=("torch",))).conventions == ("torch", "slurm", "jax")
    assert plan(job._replace(conventions=("jax", "slurm"))).conventions == ("jax", "slurm")
