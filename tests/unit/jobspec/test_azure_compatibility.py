"""Azure's own SDK as the oracle: job files that both accept are read alike, and what it sends as text, so do we.

The SDK (requirements/azure.txt) lives in an environment of its own: WORLDSIZE_AZURE_PYTHON names its interpreter,
else .venv-azure/bin/python in the checkout, else this interpreter, is asked.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from worldsize.errors import JobError
from worldsize.jobspec.distribution import DISTRIBUTIONS
from worldsize.jobspec.expressions import input_text
from worldsize.jobspec.job import Input, Job, Output
from worldsize.jobspec.reading.job_file import load_job

ROOT = Path(__file__).resolve().parents[3]
HEAD = "environment: azureml:env:1\ncommand: python train.py\n"

OF_WINGS = {
    "tensorflow": "{type: tensorflow, parameter_server_count: 1, worker_count: 2}\n",
    "mpi": "{type: Mpi, process_count_per_instance: 3}\n",
    "ray": "{type: ray, port: 6379, include_dashboard: true}\n",
}
ALIKE = {
    "full": """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
type: command
name: mnist-1
display_name: MNIST
experiment_name: mnist
description: Several words
tags: {team: vision, version: "1.0"}
command: >-
  python train.py --data ${{inputs.data}}
  --lr ${{inputs.lr}} $[[--opt ${{inputs.opt}}]]
environment: azureml:AzureML-pytorch:6
environment_variables: {NCCL_DEBUG: INFO, EMPTY: ""}
distribution: {type: PyTorch, process_count_per_instance: 2}
compute: azureml:gpu-cluster
resources:
  instance_count: 2
  instance_type: STANDARD_NC6
  shm_size: 2g
  docker_args: --ipc=host
  max_instance_count: 4
limits: {timeout: 3600}
inputs:
  data: {type: uri_folder, path: "azureml:cifar:1", mode: ro_mount}
  table: {type: mltable, path: "https://host/table"}
  model: {type: mlflow_model, path: "azureml:m:3"}
  lr: 0.1
outputs:
  model: {type: custom_model, mode: rw_mount}
  log:
queue_settings: {job_tier: Spot, priority: medium}
services:
  board: {type: tensor_board, log_dir: logs, nodes: all}
identity: {type: user_identity}
""",
    "literals": HEAD
    + """\
inputs:
  octal: 010
  hexadecimal: 0x1F
  binary: 0b101
  yes_: yes
  off_: off
  underscore: 1_000
  sexagesimal: 1:30
  exponent: 1e3
  dotted: 1.0e+3
  float: .5
  quoted: "010"
  text: two words
  path: ./data
  negative: -3
  empty: ""
""",
    "merged": HEAD + "inputs:\n  a: &d {type: uri_file, path: 'https://h/d'}\n  b: {<<: *d, mode: direct}\n",
    **{name: HEAD + "distribution: " + text for name, text in OF_WINGS.items() if name in tuple(DISTRIBUTIONS)},
    "block": "environment: azureml:env:1\ncommand: |\n  set -e\n  python train.py\n",
    "arguments": HEAD + "resources: {docker_args: [--ipc=host, --shm-size 4g], locations: [westeurope]}\n",
}
REFUSED_BY_BOTH = {
    "unknown key": HEAD + "comand: x\n",
    "unknown key inside": HEAD + "resources: {instanc_count: 2}\n",
    "no command": "environment: azureml:env:1\n",
    "number as name": HEAD + "name: 3\n",
    "text as count": HEAD + "resources: {instance_count: two}\n",
    "unknown distribution": HEAD + "distribution: {type: spark}\n",
    "unknown input type": HEAD + "inputs: {a: {type: uri_fodler, path: x}}\n",
    "list as input": HEAD + "inputs: {a: [1]}\n",
    "input without value": HEAD + "inputs: {a: }\n",
    "unknown mode": HEAD + "inputs: {a: {type: uri_file, path: x, mode: teleport}}\n",
}
LITERALS = [True, False, 0.1, 1e-5, 1000.0, 8, -3, "two words", "", 1e16]

ORACLE = r"""
import json, sys
from azure.ai.ml import load_job
from azure.ai.ml.entities._job._input_output_helpers import to_rest_dataset_literal_inputs

def fields(value, names):
    return {name: getattr(value, name, None) for name in names} if value is not None else None

def literal_or_path(port):
    data = port._data
    return fields(data, ("type", "path", "mode")) if hasattr(data, "path") else data

def read(path):
    try:
        job = load_job(path)
    except Exception:
        return None
    names = ("name", "display_name", "experiment_name", "description", "tags", "command", "compute")
    found = fields(job, (*names, "environment", "environment_variables"))
    resources = ("instance_count", "instance_type", "shm_size", "docker_args", "max_instance_count", "locations")
    found["resources"] = fields(job.resources, resources)
    found["timeout"] = job.limits.timeout if job.limits else None
    found["distribution"] = vars(job.distribution) if job.distribution else None
    found["inputs"] = {name: literal_or_path(port) for name, port in job.inputs.items()}
    found["outputs"] = {name: [port.type, port.mode] for name, port in job.outputs.items()}
    return found

request = json.load(sys.stdin)
sent = to_rest_dataset_literal_inputs({"x%d" % i: v for i, v in enumerate(request["literals"])}, job_type="command")
answer = {"jobs": {name: read(path) for name, path in request["files"].items()}}
answer["literals"] = [getattr(sent["x%d" % i], "value", None) or "" for i in range(len(request["literals"]))]
print("ANSWER" + json.dumps(answer, default=str))
"""


def _python() -> str | None:
    """The interpreter that has the SDK, if there is one."""
    own = str(ROOT / ".venv-azure" / "bin" / "python")
    for python in (os.environ.get("WORLDSIZE_AZURE_PYTHON"), own, sys.executable):
        if python and os.path.exists(python):
            probe = [python, "-c", "import importlib.util as u, sys; sys.exit(not u.find_spec('azure.ai.ml'))"]
            if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
                return python
    return None


@pytest.fixture(scope="module")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    python = _python()
    if python is None:
        pytest.skip("no interpreter with azure-ai-ml: install requirements/azure.txt into .venv-azure")
    directory = tmp_path_factory.mktemp("jobs")
    files = {}
    for number, (name, text) in enumerate({**ALIKE, **REFUSED_BY_BOTH}.items()):
        files[name] = str(directory / ("%d.yml" % number))
        Path(files[name]).write_text(text)
    request = json.dumps({"files": files, "literals": LITERALS})
    done = subprocess.run([python, "-c", ORACLE], input=request, capture_output=True, text=True, check=False)
    assert "ANSWER" in done.stdout, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout.rpartition("ANSWER")[2])
    return {**answer, "files": files}


def _ours(job: Job) -> dict[str, Any]:
    """Our reading in the oracle's shape. Azure's own names lose their prefix there, and defaults are not spelt out."""
    resources = {name: getattr(job.resources, name) or None for name in job.resources._fields if name != "properties"}
    return {
        **{name: getattr(job, name) for name in ("name", "display_name", "experiment_name", "description", "command")},
        "tags": dict(job.tags),
        "compute": _bare(job.compute),
        "environment": _bare(job.environment),
        "environment_variables": dict(job.environment_variables),
        "resources": json.loads(json.dumps(resources)),
        "timeout": job.limits.timeout,
        "distribution": job.distribution._asdict() if job.distribution else None,
        "inputs": {name: _input(value) for name, value in job.inputs.items()},
        "outputs": {name: [value.type, value.mode] for name, value in job.outputs.items()},
    }


def _bare(name: Any) -> Any:
    return name.removeprefix("azureml:") if isinstance(name, str) else name


def _input(value: Any) -> Any:
    return {"type": value.type, "path": _bare(value.path), "mode": value.mode} if isinstance(value, Input) else value


@pytest.mark.slow
@pytest.mark.parametrize("name", ALIKE)
def test_both_read_the_same(oracle: dict[str, Any], name: str) -> None:
    theirs = oracle["jobs"][name]
    assert theirs is not None, "Azure's SDK refuses this file"
    ours = _ours(load_job(oracle["files"][name]).job)
    if theirs["distribution"]:
        said = ours["distribution"]
        plain = type(load_job(oracle["files"][name]).job.distribution)()
        beyond = {key: value for key, value in said.items() if key not in theirs["distribution"]}
        assert beyond == {key: getattr(plain, key) for key in beyond}
        ours["distribution"] = {key: value for key, value in said.items() if key not in beyond and value is not None}
        theirs["distribution"] = {key: value for key, value in theirs["distribution"].items() if value is not None}
    theirs["resources"] = theirs["resources"] or {**ours["resources"], "instance_count": 1}
    theirs["resources"]["instance_count"] = theirs["resources"]["instance_count"] or 1
    for key in ("tags", "environment_variables"):
        theirs[key] = theirs[key] or {}
    assert {**ours} == {**theirs}
    assert all(type(ours["inputs"][key]) is type(theirs["inputs"][key]) for key in ours["inputs"])


@pytest.mark.slow
@pytest.mark.parametrize("name", REFUSED_BY_BOTH)
def test_both_refuse_the_same(oracle: dict[str, Any], name: str) -> None:
    assert oracle["jobs"][name] is None
    with pytest.raises(JobError):
        load_job(oracle["files"][name])


@pytest.mark.slow
def test_literals_become_the_same_text(oracle: dict[str, Any]) -> None:
    assert [input_text(value) for value in LITERALS] == oracle["literals"]


def test_an_empty_output_is_a_folder_as_there() -> None:
    assert Output().type == "uri_folder"
