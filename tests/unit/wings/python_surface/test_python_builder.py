"""The Python surface: Azure's own samples with their imports changed, and help with what is misspelt."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from worldsize.errors import JobError
from worldsize.jobspec.distribution import DISTRIBUTIONS
from worldsize.jobspec.distributions.plain import PlainDistribution
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.jobspec.job import AssetTypes, Data, Input, Job, Limits, Output, Resources
from worldsize.jobspec.reading.job_file import parse_job
from worldsize.wings.python_surface.command_job import command


def test_the_guides_pytorch_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    inputs = {
        "cifar": Input(type=AssetTypes.URI_FOLDER, path="azureml:cifar:1"),
        "epoch": 10,
        "batchsize": 64,
        "workers": 2,
        "lr": 0.01,
        "momen": 0.9,
        "prtfreq": 200,
        "output": "./outputs",
    }
    job = command(
        code="./src",
        command="python train.py --data-dir ${{inputs.cifar}} --epochs ${{inputs.epoch}}",
        inputs=inputs,
        environment="azureml:AzureML-pytorch-1.9-ubuntu18.04-py37-cuda11-gpu:6",
        compute="gpu-cluster",
        instance_count=2,
        distribution={"type": "PyTorch", "process_count_per_instance": 1},
    )
    built, warnings = job.build()
    assert warnings == []
    assert built == Job(
        command="python train.py --data-dir ${{inputs.cifar}} --epochs ${{inputs.epoch}}",
        code=str(tmp_path / "src"),
        environment="azureml:AzureML-pytorch-1.9-ubuntu18.04-py37-cuda11-gpu:6",
        compute="gpu-cluster",
        resources=Resources(2),
        distribution=PyTorchDistribution(1),
        inputs=inputs,
        source="python",
    )


def test_attributes_may_be_set_afterwards() -> None:
    job = command(command="x", inputs={"lr": 0.1})
    job.distribution = PlainDistribution(process_count_per_instance=2)
    job.instance_count = 4
    job.inputs["lr"] = 0.2
    job.inputs["more"] = True
    job.outputs["model"] = Output()
    job.outputs["log"] = None
    job.environment_variables["DEBUG"] = True
    job.timeout = 60
    job.slurm = {"partition": "gpu"}
    assert job.build()[0] == Job(
        command="x",
        distribution=PlainDistribution(2),
        resources=Resources(4),
        inputs={"lr": 0.2, "more": True},
        outputs={"model": Output(), "log": Output()},
        environment_variables={"DEBUG": "true"},
        limits=Limits(60),
        slurm={"partition": "gpu"},
    )


def test_every_keyword_of_azures_function_is_taken() -> None:
    job = command(
        name="n",
        description="d",
        tags={"a": "b"},
        properties={"p": "q"},
        display_name="dn",
        command="x",
        experiment_name="e",
        environment="azureml:env:1",
        environment_variables={"A": "1", "B": 1.5, "C": False},
        distribution=PyTorchDistribution(2),
        compute="local",
        instance_type="STANDARD",
        locations=["here"],
        docker_args="--ipc=host",
        shm_size="2g",
        timeout=10,
        identity={"type": "managed"},
        is_deterministic=False,
        services={"ssh": {"type": "ssh"}},
        job_tier="Spot",
        priority="high",
        parent_job_name="p",
        max_instance_count=3,
    )
    built = job.build()[0]
    assert built.resources == Resources(1, "STANDARD", "2g", "--ipc=host", ("here",), 3)
    assert built.queue_settings == {"job_tier": "spot", "priority": "high"}
    assert built.environment_variables == {"A": "1", "B": "1.5", "C": "false"}
    assert (built.compute, built.parent_job_name, built.limits.timeout) == ("local", "p", 10)


def test_sections_and_their_keys_go_together() -> None:
    job = command(command="x", resources=Resources(2, shm_size="1g"), instance_count=3, limits={"timeout": 5})
    assert job.build()[0]._replace(limits=Limits()) == Job(command="x", resources=Resources(3, shm_size="1g"))


def test_data_stands_for_its_path_or_its_name(tmp_path: Path) -> None:
    job = command(
        command="x",
        inputs={
            "a": Data(path=tmp_path / "d", type=AssetTypes.URI_FILE),  # type: ignore[arg-type]
            "b": Data(name="cifar", version="3"),
            "c": Data(name="cifar"),
            "d": Input(path=tmp_path),  # type: ignore[arg-type]
        },
    )
    assert job.build()[0].inputs == {
        "a": Input("uri_file", str(tmp_path / "d")),
        "b": Input(path="azureml:cifar:3"),
        "c": Input(path="azureml:cifar@latest"),
        "d": Input(path=str(tmp_path)),
    }


def test_the_callers_values_are_left_alone() -> None:
    inputs: dict[str, Any] = {"lr": 0.1}
    job = command(command="x", inputs=inputs)
    job.inputs["lr"] = 3
    assert inputs == {"lr": 0.1}
    other = copy.deepcopy(job)
    other.inputs["lr"] = 4
    assert job.build()[0].inputs == {"lr": 3}


def test_the_same_job_as_a_file_and_as_python() -> None:
    text = (
        "command: x\nresources: {instance_count: 2}\ndistribution: {type: none}\n"
        "inputs: {a: 1, b: {path: /d}}\ngrace: 3"
    )
    in_python = command(
        command="x", instance_count=2, distribution={"type": "none"}, inputs={"a": 1, "b": {"path": "/d"}}, grace=3
    )
    assert in_python.build()[0] == parse_job(text, "job.yml").job._replace(source="python")


def test_misspelt_keywords_and_attributes_are_refused_at_once() -> None:
    with pytest.raises(JobError) as caught:
        command(comand="x")
    assert (caught.value.where, caught.value.hint) == ("command()", "did you mean 'command'?")
    job = command(command="x")
    with pytest.raises(JobError, match="did you mean 'distribution'"):
        job.distributon = {}
    with pytest.raises(AttributeError):
        job.distributon


ITSELF: dict[str, Any] = {}
ITSELF["a"] = ITSELF


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "command: is missing"),
        ({"instance_count": "two"}, "resources.instance_count: expected a whole number, found 'two'"),
        ({"instance_count": 0}, "resources.instance_count: is 0, must be at least 1"),
        ({"timeout": 0}, "limits.timeout: is 0, must be more than 0"),
        ({"code": 3}, "code: expected text, found 3"),
        ({"inputs": {"a": object()}}, "inputs.a: expected a literal or a mapping with a path, found a object object"),
        ({"inputs": {"a b": 1}}, "inputs.a b: is not a name"),
        ({"inputs": {3: 1}}, "the key 3 is not text"),
        ({"inputs": {"a": None}}, "inputs.a: expected a literal"),
        ({"inputs": {"a": Input()}}, "inputs.a.path: is missing"),
        ({"inputs": {"a": 10**400}}, "more than 300 digits"),
        ({"slurm": ITSELF}, "nested more than 60 deep"),
        ({"distribution": {"type": "gossip"}}, "one of: " + ", ".join(DISTRIBUTIONS)),
        ({"distribution": "pytorch"}, "distribution: expected a mapping of keys"),
        ({"resources": 3}, "resources: expected a mapping of keys"),
        ({"resources": 3, "instance_count": 2}, "a section is a mapping of keys"),
        ({"inputs": [1]}, "inputs: expected a mapping of keys"),
        ({"outputs": "model"}, "outputs: expected a mapping of keys"),
        ({"tags": 3}, "tags: expected a mapping of keys"),
    ],
)
def test_wrong_values_are_named_by_their_key(values: dict[str, Any], message: str) -> None:
    with pytest.raises(JobError) as caught:
        command(**{**({"command": "x"} if values else {}), **values}).build()
    assert caught.value.where == "command()"
    assert message in str(caught.value)


def test_what_it_shows_holds_no_variable() -> None:
    assert "s3cret" not in repr(command(command="x", environment_variables={"TOKEN": "s3cret"}))
