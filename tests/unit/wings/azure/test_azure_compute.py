"""Computes of type azureml, as far as nobody is asked: settings, plans, requests, and what is refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from in_process import InProcess

from worldsize.errors import ConfigError
from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.jobspec.job import Input
from worldsize.jobspec.reading.job_file import load_job
from worldsize.service.computes import compute_of_run, open_compute
from worldsize.wings.azure.compute import AzureCompute, UnreachableCompute
from worldsize.wings.azure.workspace.body import ResolvedNames, request_body

OPTIONS = {"subscription_id": "1111", "resource_group": "g", "workspace_name": "w", "compute": "cpu"}
TABLE = "".join('%s = "%s"\n' % row for row in OPTIONS.items())
ENVIRONMENT = 'environment = "azureml:any@latest"\n'


@pytest.fixture
def cli(tmp_path: Path) -> InProcess:
    cli = InProcess(str(tmp_path))
    configure(cli, ENVIRONMENT)
    return cli


def configure(cli: InProcess, more: str = "") -> None:
    cli.write("worldsize.toml", 'default_compute = "cloud"\n[compute.cloud]\ntype = "azureml"\n' + TABLE + more)


def requested(cli: InProcess, job: str, *words: str) -> dict[str, Any]:
    """The properties of the body that a dry run shows."""
    cli.write("job.yml", job)
    result = cli("run", "job.yml", "--dry-run", *words)
    assert result.code == 0, result
    lines = result.out.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("PUT https://management.azure.com/"))
    properties: dict[str, Any] = json.loads("\n".join(lines[start + 1 : lines.index("}", start) + 1]))["properties"]
    return properties


def refused(cli: InProcess, job: str) -> str:
    cli.write("job.yml", job)
    result = cli("run", "job.yml")
    assert result.code == 2 and not os.path.exists(os.path.join(cli.home, "runs")), result
    return result.err


def test_a_table_that_does_not_say_enough(tmp_path: Path) -> None:
    cli = InProcess(str(tmp_path))
    cli.write("worldsize.toml", 'default_compute = "lab"\n[compute.lab]\ntype = "azureml"\n')
    result = cli("run", "--", "true")
    assert (result.code, result.out) == (2, "")
    assert "compute.lab.subscription_id" in result.err and "Traceback" not in result.err


def test_each_node_starts_an_agent_whatever_the_distribution(cli: InProcess) -> None:
    cli.write("data/a", "a")
    job = """
command: echo ${{inputs.data}} --lr ${{inputs.lr}}
inputs: {data: {type: uri_folder, path: data}, lr: 0.1, none: {type: uri_folder, optional: true}}
outputs: {model: {type: uri_folder}}
environment_variables: {A: b, C: "${{inputs.lr}}"}
resources: {instance_count: 3, shm_size: 8g}
limits: {timeout: 60}
tags: {team: vision}
services: {board: {type: tensor_board, log_dir: outputs}}
distribution: {type: %s}
"""
    for kind in ("pytorch, process_count_per_instance: 2", "tensorflow, worker_count: 3", "ray", "jax"):
        found = requested(cli, job % kind)
        assert found["distribution"] == {"distributionType": "PyTorch", "processCountPerInstance": 1}
        assert found["resources"] == {"instanceCount": 3, "shmSize": "8g"}
        assert found["command"].startswith('exec "$(command -v python3 || command -v python)" -I -S -c ')
        assert '"${{inputs.worldsize_run}}" inputs.data="${{inputs.data}}" outputs.model="${{outputs.model}}"' in (
            found["command"].replace("'inputs.data='", "inputs.data=").replace("'outputs.model='", "outputs.model=")
        )
        assert set(found["inputs"]) == {"data", "lr", "worldsize_run"}
        assert found["environmentVariables"] == {"A": "b"} and found["tags"] == {"team": "vision"}
        assert found["limits"]["timeout"] == "PT3M10S" and found["services"]["board"]["jobServiceType"] == "TensorBoard"


def test_a_single_node_waits_for_no_other(cli: InProcess) -> None:
    assert "distribution" not in requested(cli, "command: 'true'\ndistribution: {type: pytorch}\n")


def test_nothing_of_this_machine_is_in_a_plan(cli: InProcess) -> None:
    cli.write("data/a", "a")
    cli.write("job.yml", "command: ls ${{inputs.data}}\ninputs: {data: {type: uri_folder, path: data}}\n")
    result = cli("run", "job.yml", "--dry-run")
    shown = [line for line in result.out.splitlines() if cli.root in line]
    assert not [line for line in shown if '"uri"' not in line], shown


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("modules: [gcc]", "images have no modules"),
        ("stage: {pip: [x]}", "nodes of Azure ML reach the network"),
        ("outputs: {model: {path: /data/model}}", "/data/model is a directory on this machine"),
        ("inputs: {worldsize_run: 1}", "is the name of one of worldsize's own inputs"),
        ("inputs: {data: {type: uri_folder, path: nowhere}}", "no such file or directory"),
        ("environment: /opt/mine", "environment"),
    ],
)
def test_what_cannot_be_there_is_refused(cli: InProcess, job: str, words: str) -> None:
    assert words in refused(cli, "command: 'true'\n%s\n" % job)


def test_all_problems_are_told_at_once(cli: InProcess) -> None:
    said = refused(cli, "command: 'true'\nmodules: [gcc]\nstage: {pip: [x]}\n")
    assert "images have no modules" in said and "reach the network" in said


def test_a_secret_is_refused_and_shown_nowhere(cli: InProcess) -> None:
    cli.environ["HF_TOKEN"] = "hf_abcdefghijklmnopqrstuvwxyz"
    said = refused(cli, "command: 'true'\nsecrets: [HF_TOKEN]\n")
    assert "key vault" in said and "hf_abc" not in said


def test_a_job_needs_an_environment(cli: InProcess) -> None:
    configure(cli)
    assert "`environment` of the compute" in refused(cli, "command: 'true'\n")
    assert requested(cli, "command: 'true'\nenvironment: azureml:mine@latest\n")


JOB = """
command: python train.py --data ${{inputs.data}} --lr ${{inputs.lr}}
code: src
setup: [ulimit -n 4096]
threads: 4
inputs: {data: {type: uri_folder, path: data}, lr: 0.1, none: {type: uri_folder, optional: true}}
outputs: {model: {type: uri_folder, name: model, version: "1"}}
environment_variables: {A: b}
resources: {instance_count: 3, shm_size: 8g, instance_type: Standard_NC6}
limits: {timeout: 59.5}
tags: {team: vision}
queue_settings: {job_tier: spot}
services: {board: {type: tensor_board, log_dir: outputs}}
distribution: {type: %s}
"""


@pytest.mark.parametrize("kind", ["pytorch, process_count_per_instance: 2", "deepspeed", "tensorflow, worker_count: 3"])
def test_without_the_agent_the_exported_file_is_sent(cli: InProcess, kind: str) -> None:
    """The body is that of the job which the exported file says."""
    configure(cli, ENVIRONMENT + "agent = false\n")
    cli.write("data/a", "a")
    cli.write("src/train.py", "")
    found = requested(cli, JOB % kind)
    cli.write("there/azure.yml", "")
    written = cli(
        "export", "azureml", "job.yml", "--to", "there/azure.yml", "--force", "--set", "environment=azureml:a@1"
    )
    assert written.code == 0, written
    exported = load_job(os.path.join(cli.project, "there/azure.yml")).job
    paths = [value.path for value in exported.inputs.values() if isinstance(value, Input) and value.path]
    names = ResolvedNames(
        found["codeId"], found["environmentId"], found["computeId"], {paths[0]: found["inputs"]["data"]["uri"]}
    )
    assert found == request_body(exported, names)["properties"]
    assert (
        found["limits"]["timeout"] == "PT1M" and found["inputs"]["data"]["uri"] == paths[0] + " (once it is uploaded)"
    )


def test_what_an_export_leaves_out_is_said(cli: InProcess) -> None:
    configure(cli, ENVIRONMENT + "agent = false\n")
    cli.write(
        "job.yml", "command: 'true'\nhang_timeout: 5\nenvironment_variables: {A: '${{inputs.x}}'}\ninputs: {x: 1}\n"
    )
    said = cli("run", "job.yml", "--dry-run")
    assert said.code == 0 and "hang_timeout: is left out: Azure does not detect idle ranks" in said.err
    assert "environment_variables.A: is sent as it is" in said.err and said.err.count("notice") == 2


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("additional_includes: [lib]", "a job of Azure has one directory of code"),
        (
            "distribution: {type: tensorflow, chief: true}",
            "distribution.chief: Azure starts only workers and parameter",
        ),
        ("environment: {pip: [./mine]}", "names a path on this machine"),
        ("modules: [gcc]", "images have no modules"),
    ],
)
def test_what_an_export_refuses_is_refused(cli: InProcess, job: str, words: str) -> None:
    configure(cli, ENVIRONMENT + "agent = false\n")
    cli.write("lib/a.py", "")
    said = refused(cli, "command: 'true'\n%s\n" % job)
    assert said.count(words) == 1 and "problems" not in said


@pytest.mark.parametrize(
    ("size", "variables", "told"),
    [
        ("Standard_ND96asr_v4", "{NCCL_IB_DISABLE: '1'}", True),
        ("Standard_NC24rs_v3", "{NCCL_IB_DISABLE: '1'}", True),
        ("Standard_ND96asr_v4", "{NCCL_IB_DISABLE: '0'}", False),
        ("Standard_NC24s_v3", "{NCCL_IB_DISABLE: '1'}", False),
    ],
)
def test_a_word_where_infiniband_is_switched_off(cli: InProcess, size: str, variables: str, told: bool) -> None:
    cli.write(
        "job.yml", "command: 'true'\nresources: {instance_type: %s}\nenvironment_variables: %s\n" % (size, variables)
    )
    result = cli("run", "job.yml", "--dry-run")
    assert result.code == 0 and ("switches off InfiniBand" in result.out + result.err) == told, result


def test_a_run_of_somebody_elses_gets_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    handle = {"type": "azureml", "endpoint": "https://evil.example", "run_id": "x"}
    compute = compute_of_run(str(tmp_path), handle, "cloud", {"HOME": str(tmp_path)})
    assert isinstance(compute, UnreachableCompute)
    assert compute.observe([handle])[0].phase == "unknown"


def test_it_opens_without_asking_anybody() -> None:
    config = Config(computes={"cloud": ComputeSettings("cloud", "azureml", options=OPTIONS)})
    assert isinstance(open_compute(config, "cloud", {}), AzureCompute)
    with pytest.raises(ConfigError, match="has no `workspace_name`"):
        few = {key: value for key, value in OPTIONS.items() if key != "workspace_name"}
        open_compute(Config(computes={"c": ComputeSettings("c", "azureml", options=few)}), "c", {}).cancel([])
