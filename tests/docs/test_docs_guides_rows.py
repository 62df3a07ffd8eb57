"""Rows of docs/how-to/guides.md that are proved here: what a reader of a guide would do, on virtual nodes."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Cli

_SHOW = "echo $RANK $LOCAL_RANK $NODE_RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT"


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(str(tmp_path))
    yield cli
    cli.close()


def printed(cli: Cli, *words: str, **environ: str) -> list[str]:
    """What the ranks of `job.yml` print, a line of each, in order of the ranks."""
    return sorted(cli.ok("run", "job.yml", "--fold", "off", *words, **environ).lines)


def refused(cli: Cli, *words: str) -> str:
    result = cli("run", "job.yml", *words)
    assert (result.code, result.out) == (2, "")
    assert cli.json("list") == []
    return result.err


@pytest.fixture
def four_gpus(cli: Cli) -> Cli:
    """A project whose nodes have four GPUs, by the configuration."""
    cli.write("worldsize.toml", "[compute.local]\ngpus_per_node = 4\n")
    cli.write("job.yml", "command: echo $CUDA_VISIBLE_DEVICES\nvisible_devices: true\n")
    return cli


def test_two_nodes_of_four_gpus_are_eight_processes_with_a_gpu_each(four_gpus: Cli) -> None:
    assert printed(four_gpus, "-w", "2x4") == ["%d:%d: %d" % (rank // 4, rank, rank % 4) for rank in range(8)]


def test_a_process_more_than_gpus_is_refused_unless_they_are_shared(four_gpus: Cli) -> None:
    assert "5 processes per node, but a node has 4 GPUs" in refused(four_gpus, "-w", "2x5")
    found = printed(four_gpus, "-w", "2x5", "--set", "share_gpus=true")
    assert found == ["%d:%d: %d" % (rank // 5, rank, rank % 5 % 4) for rank in range(10)]


def test_every_job_has_the_variables_also_without_a_distribution(cli: Cli) -> None:
    """One process per node is what a job means that does not say how many."""
    for distribution in ("", "distribution: {type: pytorch}\n"):
        cli.write("job.yml", "command: %s\nresources: {instance_count: 2}\n%s" % (_SHOW, distribution))
        found = [line.split()[1:] for line in printed(cli)]
        assert [each[:5] for each in found] == [["0", "0", "0", "2", "127.0.0.1"], ["1", "0", "1", "2", "127.0.0.1"]]
        (port,) = {int(each[5]) for each in found}
        assert 1024 < port < 65536


def test_agents_start_the_processes_and_no_launcher(cli: Cli) -> None:
    command = "tr '\\\\0' ' ' </proc/$PPID/cmdline"
    cli.write("job.yml", 'command: "%s"\ndistribution: {type: pytorch, process_count_per_instance: 2}\n' % command)
    lines = printed(cli)
    assert len(lines) == 2 and len({line.partition(": ")[2] for line in lines}) == 1
    assert lines[0].startswith("0:0: worldsize %s" % cli.latest()), "the agent"
    assert json.loads(cli.read(cli.latest(), "plan.json"))["launcher"] == "direct"


def test_a_world_size_against_the_plan_is_refused(cli: Cli) -> None:
    cli.write("job.yml", "command: 'true'\nenvironment_variables:\n  WORLD_SIZE: 16\n")
    said = refused(cli, "-w", "2x4")
    assert "job.yml:3: environment_variables.WORLD_SIZE" in said
    assert "the plan makes it 8, the job 16" in said


def test_a_world_size_of_the_shell_is_not_the_ranks(cli: Cli) -> None:
    cli.write("job.yml", "command: echo $WORLD_SIZE\n")
    for world, size in (("1x2", "2"), ("2x2", "4")):
        lines = printed(cli, "-w", world, WORLD_SIZE="16", SLURM_NTASKS="16")
        assert {line.partition(": ")[2] for line in lines} == {size} and len(lines) == int(size)


@pytest.mark.parametrize(
    "uri",
    ["azureml:cifar:1", "azureml://datastores/blob/paths/cifar", "azureml://registries/r/data/cifar/versions/1"],
)
def test_uris_of_the_service_are_refused_with_the_line_that_says_what_they_mean(cli: Cli, uri: str) -> None:
    cli.write("job.yml", "command: ls ${{inputs.data}}\ninputs:\n  data:\n    type: uri_folder\n    path: %s\n" % uri)
    said = refused(cli)
    line = re.search(r'map it: (".+" = )"/a/\w+" in \[azure\.data\] of worldsize\.toml', said)
    assert line and "job.yml:5" in said and "or name a local path" in said, said
    cli.write("here/cifar/x.bin", "")
    cli.write("worldsize.toml", "[azure.data]\n%s%s\n" % (line[1], '"here"' if "paths" in uri else '"here/cifar"'))
    assert printed(cli) == ["0:0: x.bin"]


def test_the_activated_environments_python_is_used(cli: Cli, tmp_path: Path) -> None:
    activated = tmp_path / "mynewenv" / "bin"
    activated.mkdir(parents=True)
    (activated / "python").write_text("#!/bin/sh\necho mine\n")
    (activated / "python").chmod(0o755)
    path = os.pathsep.join((str(activated), os.environ["PATH"]))
    cli.write("job.yml", "command: python -c 1\n")
    for name in ("CONDA_PREFIX", "VIRTUAL_ENV"):
        assert printed(cli, **{"PATH": path, name: str(tmp_path / "mynewenv")}) == ["0:0: mine"]


def test_paths_of_the_login_files_and_of_the_job_reach_the_ranks(cli: Cli, tmp_path: Path) -> None:
    tool = tmp_path / "of-my-login" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    path = os.pathsep.join((os.environ["PATH"], str(tool.parent)))
    job = "command: tool; echo $LD_LIBRARY_PATH\n"
    cli.write("job.yml", job)
    lines = cli.ok("run", "job.yml", PATH=path, LD_LIBRARY_PATH="/opt/login/lib").lines
    assert lines == ["0:0: found", "0:0: /opt/login/lib"]
    cli.write("job.yml", job + "environment_variables: {LD_LIBRARY_PATH: /opt/nccl/lib}\n")
    lines = cli.ok("run", "job.yml", PATH=path, LD_LIBRARY_PATH="/opt/login/lib").lines
    assert lines == ["0:0: found", "0:0: /opt/nccl/lib"]


def test_local_paths_are_read_where_they_lie(cli: Cli) -> None:
    cli.write("data/x.txt", "before")
    cli.write("src/go.sh", "")
    cli.write("job.yml", "command: realpath ${{inputs.data}}/x.txt\ncode: src\ninputs: {data: {path: ./data}}\n")
    place = os.path.realpath(os.path.join(cli.project, "data", "x.txt"))
    assert printed(cli, "-w", "2") == ["0:0: " + place, "1:1: " + place]
    assert not [names for _, _, names in os.walk(cli.path(cli.latest())) if "x.txt" in names], "nothing was copied"


def test_a_model_directory_that_is_text_is_kept(cli: Cli) -> None:
    """As the guide's samples have it: `./outputs`, and a directory below it that the script makes."""
    cli.write(
        "job.yml",
        "command: mkdir -p ${{inputs.below}}; echo a > ${{inputs.output}}/model; echo b > ${{inputs.below}}/model\n"
        "inputs: {output: ./outputs, below: outputs/keras-model}\n",
    )
    run = cli.run("job.yml")
    assert [cli.read(run, "outputs", *where) for where in (("model",), ("keras-model", "model"))] == ["a\n", "b\n"]


def test_names_and_description_are_shown_and_found(cli: Cli) -> None:
    cli.write(
        "job.yml", "command: 'true'\ndisplay_name: tensorflow-mnist\nexperiment_name: mnist\ndescription: Trains it.\n"
    )
    run = cli.run("job.yml")
    cli.run("--", "true")
    (row,) = cli.json("list", "--experiment", "mnist")
    assert (row["id"], row["name"], row["experiment_name"]) == (run, "tensorflow-mnist", "mnist")
    assert "tensorflow-mnist" in cli.ok("list", "--experiment", "mnist").lines[1]
    said = cli.ok("status", run).out
    assert all(words in said for words in ("tensorflow-mnist: ", "experiment: mnist", "description: Trains it."))


def test_local_needs_no_package_of_azures(cli: Cli, tmp_path: Path) -> None:
    """One that cannot be imported stands before any that is installed."""
    (tmp_path / "first" / "azure").mkdir(parents=True)
    (tmp_path / "first" / "azure" / "__init__.py").write_text("raise SystemExit('azure was imported')\n")
    path = os.pathsep.join((str(tmp_path / "first"), cli.environ["PYTHONPATH"]))
    cli.write(
        "job.yml",
        "$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\ntype: command\n"
        "command: echo ${{inputs.epoch}}\ninputs: {epoch: 10}\ncompute: azureml:gpu-cluster\n"
        "environment: azureml:AzureML-pytorch-1.9-ubuntu18.04-py37-cuda11-gpu:6\n"
        "distribution: {type: PyTorch, process_count_per_instance: 1}\nresources: {instance_count: 2}\n",
    )
    assert printed(cli, PYTHONPATH=path) == ["0:0: 10", "1:1: 10"]
