"""What each key of a job file means here: kept, mapped, ignored or impossible; as text and as data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Cli
from in_process import InProcess

AZURE = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json
command: ls ${{inputs.data}} ${{inputs.store}} ${{inputs.lr}} ${{inputs.text}}
inputs:
  lr: 0.1
  text: azureml:words:1
  data: {type: uri_folder, path: "azureml:words:1", mode: ro_mount}
  store: {path: "azureml://datastores/blob/paths/a"}
outputs:
  model: {type: uri_folder, path: "azureml://datastores/blob/paths/model", name: best}
  log: {path: "azureml://datastores/other/paths/log"}
environment: azureml:AzureML-acpt@latest
environment_variables: {A: 1}
compute: azureml:gpu-cluster
distribution: {type: pytorch, process_count_per_instance: 2, added_property: 1}
resources: {instance_count: 2, instance_type: Standard_NC6, docker_args: --ipc=host}
limits: {timeout: 60}
tags: {a.b: c}
services:
  code: {job_service_type: vs_code, nodes: all}
identity: {type: managed}
slurm: {partition: gpu}
"""
CONFIG = """\
[azure.computes]
gpu-cluster = "lab"
[azure.data]
"words" = "words"
"datastores/blob" = "blob"
[compute.lab]
type = "local"
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = InProcess(str(tmp_path))
    cli.write("job.yml", AZURE)
    yield cli
    cli.close()


def mapped(cli: Cli) -> None:
    path = Path(cli.environ["HOME"], ".config", "worldsize", "worldsize.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(CONFIG)
    for name in ("words", "blob/a"):
        (path.parent / name).mkdir(parents=True)


def test_every_key_that_is_given_has_a_row(cli: Cli) -> None:
    mapped(cli)
    data = json.loads(cli.ok("run", "job.yml", "--dry-run", "-o", "json").out)
    assert (data["compute"], data["nodes"], data["world_size"]) == ("lab", 2, 4)
    assert "bash -c" in data["submission"] and not any("only Azure ML honours" in text for text in data["notices"])
    rows = {row["key"]: (row["verdict"], row["meaning"]) for row in data["keys"]}
    here = str(Path(cli.environ["HOME"], ".config", "worldsize"))
    assert {key: meaning for key, (verdict, meaning) in rows.items() if verdict == "mapped"} == {
        "inputs.data.path": here + "/words",
        "inputs.store.path": here + "/blob/a",
        "outputs.model.path": here + "/blob/model",
        "outputs.log.path": "outputs/log of the run",
        "environment": "the command runs in the current Python; [environment_map] names another environment",
        "compute": "lab, by azure.computes.gpu-cluster",
    }
    ignored = {key: meaning for key, (verdict, meaning) in rows.items() if verdict == "ignored"}
    assert set(ignored) == {
        "outputs.model.name",
        "distribution.added_property",
        "resources.instance_type",
        "resources.docker_args",
        "services.code",
        "identity.type",
    }
    assert all(ignored.values())
    kept = [key for key, (verdict, _) in rows.items() if verdict == "kept"]
    assert kept == [
        "$schema",
        "command",
        "inputs.lr",
        "inputs.text",
        "inputs.data.type",
        "inputs.data.mode",
        "outputs.model.type",
        "environment_variables",
        "distribution.type",
        "distribution.process_count_per_instance",
        "resources.instance_count",
        "limits.timeout",
        "tags",
        "slurm",
    ]
    assert "the literal text" in rows["inputs.text"][1]


def test_what_is_impossible_is_told_at_once_with_the_fix(cli: Cli) -> None:
    result = cli("run", "job.yml", "--dry-run", "-o", "json")
    assert result.code == 2 and "2 problems" in result.err
    data = json.loads(result.out)
    wrong = {row["key"]: row["fix"] for row in data["keys"] if row["verdict"] == "impossible"}
    assert set(wrong) == {"inputs.data.path", "inputs.store.path"}
    assert '"words:1" = "/a/path" in [azure.data]' in wrong["inputs.data.path"]
    assert '"datastores/blob" = "/a/directory"' in wrong["inputs.store.path"]
    assert [each["where"] for each in data["problems"]] == [
        "job.yml:6: inputs.data.path",
        "job.yml:7: inputs.store.path",
    ]
    rows = {row["key"]: (row["verdict"], row["meaning"]) for row in data["keys"]}
    assert rows["compute"] == ("mapped", "local, the default compute")


def test_the_lines_that_it_names_are_all_that_is_missing(cli: Cli) -> None:
    """What the problems say to add, added to the configuration as it stands there, makes the job run."""
    data = json.loads(cli("run", "job.yml", "--dry-run", "-o", "json").out)
    fixes = [row["fix"].partition("map it: ")[2] for row in data["keys"] if row["fix"]]
    lines = [fix.partition(" in [azure.data]")[0].replace("/a/", cli.project + "/") for fix in fixes]
    Path(cli.project, "path").mkdir()
    Path(cli.project, "directory", "a").mkdir(parents=True)
    cli.write("worldsize.toml", "[azure.data]\n%s\n" % "\n".join(lines))
    cli.ok("config", "trust", "worldsize.toml")
    assert cli("run", "job.yml", "--dry-run").code == 0


def test_as_text_where_a_key_means_anything_but_the_same(cli: Cli) -> None:
    mapped(cli)
    lines = cli.ok("run", "job.yml", "--dry-run").out.splitlines()
    assert lines[0].split() == ["#", "KEY", "HERE", "MEANS"]
    (row,) = (line for line in lines if line.startswith("# resources.instance_type "))
    assert row.split()[2] == "ignored"
    assert any("rank 3 on node 1" in line for line in lines), "what would be started follows"
    cli.write("own.yml", "command: echo ${{inputs.x}}\ninputs: {x: 1}\ntags: {a: b}\n")
    assert "KEY" not in cli.ok("run", "own.yml", "--dry-run").out
    rows = json.loads(cli.ok("run", "own.yml", "--dry-run", "-o", "json").out)["keys"]
    assert [(row["key"], row["verdict"]) for row in rows] == [(key, "kept") for key in ("command", "inputs.x", "tags")]


def test_options_of_the_command_line_have_their_say(cli: Cli) -> None:
    mapped(cli)
    words = ("--compute", "local", "-w", "1x1", "--set", "inputs.data.path=.", "-o", "json")
    rows = json.loads(cli.ok("run", "job.yml", "--dry-run", *words).out)["keys"]
    found = {row["key"]: (row["verdict"], row["meaning"]) for row in rows}
    assert found["compute"] == ("mapped", "local, by --compute")
    assert found["inputs.data.path"] == ("kept", "")


def test_a_secret_in_the_configuration_or_the_job_is_in_no_row(cli: Cli) -> None:
    mapped(cli)
    path = Path(cli.environ["HOME"], ".config", "worldsize", "worldsize.toml")
    path.write_text(CONFIG.replace('"blob"\n', '"https://anna:hunter2hunter2@host/c?sig=hunter3hunter3"\n'))
    cli.write("job.yml", AZURE + "secrets: [TOKEN]\n")
    for words in (("--dry-run",), ("--dry-run", "-o", "json")):
        result = cli("run", "job.yml", *words, TOKEN="hunter4hunter4")
        assert "hunter" not in result.out + result.err, result


IMAGES = {
    "image: mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu20.04": ("environment.image", "mapped"),
    "{image: python, conda_file: {dependencies: [python=3.11]}}": ("environment.image", "ignored"),
    "{build: {path: .}, version: 2}": ("environment.build", "ignored"),
}


@pytest.mark.parametrize("environment", IMAGES)
def test_environments(cli: Cli, environment: str) -> None:
    key, verdict = IMAGES[environment]
    known = '[environment_map]\n"mcr.microsoft.com/azureml/openmpi4.1.0-*" = "mine"\n'
    cli.write("worldsize.toml", known + "[environment.mine]\nvariables = {A = 'b'}\n")
    cli.ok("config", "trust", "worldsize.toml")
    text = environment if environment.startswith("{") else "{%s}" % environment
    cli.write("job.yml", "command: 'true'\nenvironment: %s\n" % text)
    rows = json.loads(cli("run", "job.yml", "--dry-run", "-o", "json").out)["keys"]
    assert (key, verdict) in [(row["key"], row["verdict"]) for row in rows], rows


def test_a_rehearsal_is_of_the_compute_that_a_name_of_azures_means(cli: Cli) -> None:
    """Its nodes have as many virtual GPUs as those of that compute."""
    known = '[azure.computes]\ngpu-cluster = "lab"\n[compute.lab]\ntype = "slurm"\ngpus_per_node = 3\n'
    cli.write("worldsize.toml", known)
    cli.ok("config", "trust", "worldsize.toml")
    cli.write("job.yml", "command: 'true'\ncompute: azureml:gpu-cluster\n")
    assert "3 virtual GPUs per node" in cli.ok("rehearse", "job.yml", "--dry-run").out


def test_of_a_path_of_any_length(cli: Cli) -> None:
    mapped(cli)
    text = AZURE.replace("datastores/blob/paths/a", "datastores/none/paths" + "/a" * 200_000)
    cli.write("job.yml", text)
    result = cli("run", "job.yml", "--dry-run", "-o", "json")
    assert result.code == 2 and "Traceback" not in result.err and len(result.err) < 4000


def test_a_batch_script_has_no_table(cli: Cli) -> None:
    cli.write("job.slurm", "#!/bin/bash\n#SBATCH --ntasks=2 --partition=gpu\nsrun true\n")
    assert "KEY" not in cli.ok("run", "job.slurm", "--dry-run").out
