"""The body that a job becomes equals the one that Azure's own SDK makes of the same file."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from body_oracle import BodyOracle, with_defaults
from hypothesis import given
from hypothesis import strategies as st
from job_strategies import fuzz

from worldsize.jobspec.job import Input, Job, Limits
from worldsize.jobspec.reading.job_file import load_job
from worldsize.wings.azure.workspace.body import ResolvedNames, iso_duration, request_body

HEAD = "command: python train.py\nenvironment: azureml:env:1\n"
FILES = {
    "plain": HEAD,
    "names": HEAD + "name: a-1\ndisplay_name: A b\nexperiment_name: exp\ndescription: Text\nparent_job_name: p\n",
    "labels": HEAD + "tags: {team: vision, empty: ''}\nproperties: {origin: guide}\n",
    "code": HEAD + "code: .\n",
    "compute": HEAD + "compute: azureml:gpu-cluster\n",
    "serverless": HEAD + "resources: {instance_type: Standard_NC6, instance_count: 2}\n",
    "variables": HEAD + "environment_variables: {NCCL_DEBUG: INFO, EMPTY: '', TEXT: '010'}\n",
    "resources": HEAD + "resources: {instance_count: 2, instance_type: B, shm_size: 2g, docker_args: --ipc=host, "
    "locations: [westeurope], max_instance_count: 4, properties: {AISuperComputer: {interactive: true}}}\n",
    "listed arguments": HEAD
    + "resources: {docker_args: [--ipc=host, --x], locations: [westeurope], max_instance_count: 4}\n",
    "short limit": HEAD + "limits: {timeout: 90}\n",
    "long limit": HEAD + "limits: {timeout: 100000}\n",
    "whole days": HEAD + "limits: {timeout: 172800}\n",
    "literals": HEAD
    + "inputs: {a: 0.1, b: 010, c: yes, d: two words, e: 1e-5, f: '', g: -3, h: '010', i: 1_000, j: 1e16}\n",
    "data": HEAD
    + """\
inputs:
  folder: {type: uri_folder, path: "azureml://datastores/a/paths/b", mode: ro_mount}
  file: {type: uri_file, path: "https://host/f", mode: download}
  table: {type: mltable, path: "azureml:t:1", mode: eval_mount}
  evaluated: {type: mltable, path: "azureml:t:1", mode: eval_download}
  model: {type: mlflow_model, path: "azureml:m@latest", mode: direct}
  custom: {type: custom_model, path: "azureml:m:2"}
  triton: {type: triton_model, path: "azureml:m:3"}
  bare: {path: "https://host/f"}
""",
    "outputs": HEAD
    + """\
outputs:
  model: {type: custom_model, mode: rw_mount, name: best, version: "3", path: "azureml://datastores/a/paths/c"}
  file: {type: uri_file, mode: upload}
  mlflow: {type: mlflow_model, mode: direct}
  table: {type: mltable, mode: mount}
  empty:
""",
    "pytorch": HEAD + "distribution: {type: PyTorch, process_count_per_instance: 4}\nresources: {instance_count: 2}\n",
    "pytorch alone": HEAD + "distribution: {type: pytorch}\n",
    "mpi": HEAD + "distribution: {type: Mpi, process_count_per_instance: 3}\n",
    "tensorflow": HEAD + "distribution: {type: TensorFlow, worker_count: 2, parameter_server_count: 1}\n",
    "tensorflow alone": HEAD + "distribution: {type: tensorflow}\n",
    "ray": HEAD + "distribution: {type: ray, port: 6379, address: a, include_dashboard: true, dashboard_port: 8265, "
    "head_node_additional_args: --a, worker_node_additional_args: --b}\n",
    "services": HEAD
    + """\
services:
  board: {type: tensor_board, log_dir: logs, nodes: all, port: 6006}
  plain: {type: tensor_board}
  shell: {type: ssh, ssh_public_keys: ssh-rsa abc}
  editor: {type: vs_code, nodes: all}
  lab: {type: jupyter_lab, properties: {a: b}}
""",
    "user": HEAD + "identity: {type: user_identity}\n",
    "managed": HEAD + "identity: {type: managed, client_id: 1-2}\n",
    "token": HEAD + "identity: {type: aml_token}\n",
    "queue": HEAD + "queue_settings: {job_tier: Spot, priority: high}\n",
    "tier": HEAD + "queue_settings: {job_tier: standard}\n",
    "optional": "command: python t.py $[[--lr ${{inputs.lr}}]] ${{inputs.d}}\nenvironment: azureml:e@latest\n"
    "inputs: {lr: 0.1, d: {path: 'https://h/d'}}\n",
}


def sent(path: str) -> dict[str, Any]:
    """The body of the job in a file, with the names that the SDK leaves for the workspace to resolve."""
    job = load_job(path).job
    names = ResolvedNames(
        "CODE" if job.code else None,
        job.environment.removeprefix("azureml:") if isinstance(job.environment, str) else "ENVIRONMENT",
        job.compute.removeprefix("azureml:") if job.compute else None,
        {
            value.path: value.path.removeprefix("azureml:") if "://" not in value.path else value.path
            for value in job.inputs.values()
            if isinstance(value, Input) and value.path
        },
    )
    return request_body(job, names)


@pytest.mark.slow
def test_the_body_of_each_file_is_the_sdks(oracle: BodyOracle, tmp_path: Path) -> None:
    paths = []
    for number, text in enumerate(FILES.values()):
        path = tmp_path / ("%d.yml" % number)
        path.write_text(text)
        paths.append(str(path))
    for name, path, theirs in zip(FILES, paths, oracle.bodies(paths), strict=True):
        assert "refused" not in theirs, (name, theirs)
        assert sent(path) == {"properties": with_defaults(theirs)["properties"]}, name


WORDS = st.from_regex(r"[A-Za-z][A-Za-z0-9 ._-]{0,12}[A-Za-z0-9]", fullmatch=True)
NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
DATA_INPUTS = st.fixed_dictionaries(
    {"path": st.sampled_from(["https://host/a b", "azureml://datastores/a/paths/b/"])},
    optional={
        "type": st.sampled_from(["uri_file", "uri_folder"]),
        "mode": st.sampled_from(["ro_mount", "download", "direct"]),
    },
)
OUTPUTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["uri_file", "uri_folder", "mlflow_model"])},
    optional={"mode": st.sampled_from(["rw_mount", "upload"]), "name": NAMES},
)
COUNTS = st.integers(1, 1000)
DISTRIBUTIONS = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["pytorch", "PyTorch", "mpi", "Mpi"])}).flatmap(
        lambda kind: st.fixed_dictionaries({"type": st.just(kind["type"]), "process_count_per_instance": COUNTS})
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["tensorflow", "TensorFlow"])},
        optional={"worker_count": COUNTS, "parameter_server_count": st.integers(0, 9)},
    ),
)
JOB_FILES = st.fixed_dictionaries(
    {"command": WORDS, "environment": st.just("azureml:env:1")},
    optional={
        "display_name": WORDS,
        "description": WORDS,
        "tags": st.dictionaries(WORDS, WORDS, max_size=3),
        "properties": st.dictionaries(NAMES, WORDS, max_size=2),
        "environment_variables": st.dictionaries(NAMES, WORDS, max_size=3),
        "compute": st.just("azureml:cluster"),
        "distribution": DISTRIBUTIONS,
        "resources": st.fixed_dictionaries(
            {"instance_count": COUNTS},
            optional={
                "instance_type": WORDS,
                "shm_size": st.sampled_from(["2g", "512m"]),
                "docker_args": WORDS | st.lists(WORDS, min_size=1, max_size=3),
                "locations": st.lists(NAMES, min_size=1, max_size=2),
                "max_instance_count": COUNTS,
            },
        ),
        "limits": st.fixed_dictionaries({"timeout": st.integers(1, 10**7)}),
        "inputs": st.dictionaries(
            NAMES, DATA_INPUTS | WORDS | st.booleans() | st.integers() | st.floats(-1e6, 1e6), max_size=4
        ),
        "outputs": st.dictionaries(NAMES, OUTPUTS, max_size=3),
        "queue_settings": st.fixed_dictionaries({"job_tier": st.sampled_from(["Spot", "basic", "premium"])}),
        "identity": st.sampled_from([{"type": "user_identity"}, {"type": "aml_token"}]),
    },
)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_the_bodies_of_generated_files_are_the_sdks(oracle: BodyOracle, tmp_path: Path) -> None:
    numbers = itertools.count()

    @fuzz
    @given(JOB_FILES)
    def check(tree: dict[str, Any]) -> None:
        path = tmp_path / ("%d.yml" % next(numbers))
        path.write_text(json.dumps(tree))
        theirs = oracle.bodies([str(path)])[0]
        assert "refused" not in theirs, theirs
        assert sent(str(path)) == {"properties": with_defaults(theirs)["properties"]}

    check()


def test_paths_become_the_uris_of_what_was_uploaded() -> None:
    job = Job(command="x", inputs={"data": Input(path="/data/a")})
    body = request_body(job, ResolvedNames(data={"/data/a": "azureml://datastores/d/paths/p"}))
    assert body["properties"]["inputs"]["data"]["uri"] == "azureml://datastores/d/paths/p"


def test_an_optional_input_without_a_value_is_left_out() -> None:
    job = Job(command="x", inputs={"data": Input(optional=True), "lr": 0.1})
    assert list(request_body(job, ResolvedNames())["properties"]["inputs"]) == ["lr"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (1, "PT1S"),
        (90, "PT1M30S"),
        (3600, "PT1H"),
        (86400, "P1D"),
        (90061, "P1DT1H1M1S"),
        (0.5, "PT0.5S"),
        (61.25, "PT1M1.25S"),
    ],
)
def test_times_are_written_as_iso_8601_says(seconds: float, text: str) -> None:
    assert iso_duration(seconds) == text
    assert (
        request_body(Job(command="x", limits=Limits(seconds)), ResolvedNames())["properties"]["limits"]["timeout"]
        == text
    )
