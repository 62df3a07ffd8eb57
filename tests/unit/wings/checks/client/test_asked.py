"""What a job asks of its nodes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from checked_jobs import cluster, plan_for, request_for

from worldsize.compute.base import ComputeFacts
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.jobspec.job import Input, Job, Output, Resources
from worldsize.plan.node_disk import DIRECTORY_MARK, InputCopy, NodeDiskPlan
from worldsize.plan.plan import Plan
from worldsize.wings.checks.agent.probes.inputs import OUTPUT
from worldsize.wings.checks.asked import asked_of, program_of

TRAIN = Job(
    command="python train.py",
    distribution=PyTorchDistribution(4),
    resources=Resources(2, "Standard_ND96asr_v4"),
)


GPUS = ComputeFacts(8)


def asked(
    job: Job, tmp_path: Path, plan: Plan | None = None, facts: ComputeFacts = GPUS, python: Any = None, **script: Any
) -> Any:
    settings = cluster(tmp_path, options={"cpus_per_rank": 6}, python=python)
    found = asked_of(plan or plan_for(job, facts), request_for(job, settings, tmp_path), job, facts, script)
    json.dumps(found)
    return found


def test_size_and_program(tmp_path: Path) -> None:
    found = asked(TRAIN, tmp_path, workers=2, modules=["torch"], backend="nccl")
    expected = {"gpus": 8, "ranks": 4, "cores": 24, "workers": 2, "python": "python", "framework": "pytorch",
                "backend": "nccl", "launcher": "direct", "modules": ["torch"], "offline": False, "share": True,
                "virtual": False, "vm_size": "Standard_ND96asr_v4", "variables": {}, "paths": []}  # fmt: skip
    assert found == expected


def test_what_is_not_known_is_absent(tmp_path: Path) -> None:
    found = asked(Job(command="./train"), tmp_path, facts=ComputeFacts(shared_host=True))
    assert not {"gpus", "workers", "backend", "modules", "hosts", "vm_size", "node_disk"} & set(found)
    assert found["virtual"] is True and found["share"] is False and found["framework"] == "none"


@pytest.mark.parametrize("command", ["true", "./train", "bash train.sh"])
def test_without_a_python_in_the_command_it_is_the_ranks_own(command: str, tmp_path: Path) -> None:
    found = asked(Job(command=command), tmp_path)
    assert (found["python"], found["python_guessed"]) == ("python3", True)
    assert "python_guessed" not in asked(Job(command="python a.py"), tmp_path)


def test_without_a_python_in_the_command_it_is_the_computes(tmp_path: Path) -> None:
    own = str(tmp_path / "env" / "bin" / "python3.11")
    assert asked(Job(command="true"), tmp_path, python=own)["python"] == own
    (tmp_path / "env" / "bin").mkdir(parents=True)
    found = asked(Job(command="true"), tmp_path, python=os.path.dirname(own))
    assert found["python"] == os.path.join(os.path.dirname(own), "python3")
    assert asked(Job(command="true", environment=str(tmp_path / "env")), tmp_path, python=own)["python"] == "python3"


@pytest.mark.parametrize("environment", [{"image": "docker://debian"}, "/no/such/environment"])
def test_no_python_of_an_image_is_guessed(environment: Any, tmp_path: Path) -> None:
    assert not {"python", "python_guessed"} & set(asked(Job(command="true", environment=environment), tmp_path))


def test_a_script_says_the_framework_that_the_job_does_not(tmp_path: Path) -> None:
    assert asked(Job(command="python a.py"), tmp_path, framework="jax")["framework"] == "jax"


def test_inputs_and_where_outputs_are_made(tmp_path: Path) -> None:
    inputs = {
        "data": Input(path="/data/set"),
        "far": Input(path="https://example.org/set.tar"),
        "maybe": Input(path=None, optional=True),
        "lr": 0.1,
        "copied": Input(path="/data/more", mode="download"),
    }
    outputs = {"model": Output(path=str(tmp_path / "new" / "models")), "own": Output(), "far": Output(path="s3://b/m")}
    job = TRAIN._replace(inputs=inputs, outputs=outputs)
    plan = plan_for(job._replace(inputs={**inputs, "copied": Input(path=DIRECTORY_MARK + "/copied")}))
    plan = plan._replace(local=NodeDiskPlan("/scratch", (InputCopy("copied", "/data/more", "copied"),)))
    found = asked(job, tmp_path, plan)
    assert found["paths"] == [
        ["inputs.data", "/data/set"], ["inputs.copied", "/data/more"], ["outputs.model", str(tmp_path)],
    ]  # fmt: skip
    assert found["node_disk"] == "/scratch"
    assert [key for key, _ in found["paths"] if key.startswith(OUTPUT)] == ["outputs.model"]


def test_paths_are_as_nodes_call_them(tmp_path: Path) -> None:
    job = TRAIN._replace(
        inputs={"data": Input(path=str(tmp_path / "data"))}, outputs={"m": Output(path=str(tmp_path / "out" / "m"))}
    )
    found = asked(job, tmp_path, facts=ComputeFacts(8, mapped=((str(tmp_path), "/share"),)))
    assert found["paths"] == [["inputs.data", "/share/data"], ["outputs.m", "/share"]]


def test_variables_of_libraries_and_no_secrets(tmp_path: Path) -> None:
    said = {"NCCL_IB_DISABLE": "1", "UCX_TLS": "tcp", "NCCL_TOKEN": "hunter2hunter2", "HOME": "/x"}
    found = asked(TRAIN._replace(environment_variables=said), tmp_path)
    assert found["variables"] == {"NCCL_IB_DISABLE": "1", "UCX_TLS": "tcp"}
    assert "hunter2" not in json.dumps(found)


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("python train.py", "python"),
        ("python3.11 -u train.py", "python3.11"),
        ("cd src && /opt/env/bin/python train.py", "/opt/env/bin/python"),
        ("torchrun --nproc_per_node 4 train.py", "python"),
        ("/opt/env/bin/torchrun train.py", "/opt/env/bin/python"),
        ("exec env A=1 'python' train.py", "python"),
        ("bash train.sh", None),
        ("source env/bin/activate && python train.py", None),
        ("module load pytorch; python train.py", None),
        ("conda run -n env python train.py", None),
        ("apptainer exec --nv image.sif python train.py", None),
        ("PATH=/opt/env/bin:$PATH python train.py", None),
        ("pythonic", None),
        ("", None),
        ("'", None),
    ],
)
def test_the_python_of_a_command(command: str, program: str | None) -> None:
    assert program_of(command) == program
