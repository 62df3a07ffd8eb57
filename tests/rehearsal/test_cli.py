"""The verb, the option, the key; what a rehearsal has of its own, and that all of its outputs say what it is."""

from __future__ import annotations

import json
import os

import pytest
from driver import Cli, Result

JOB = """\
command: nvidia-smi -L; echo $HF_HUB_OFFLINE
code: .
compute: cluster
resources: {instance_count: 2}
distribution: {type: pytorch, process_count_per_instance: 2}
"""
CLUSTER = '[compute.cluster]\ntype = "slurm"\n'
MARK = ", a rehearsal with 3 virtual GPUs per node"


def rehearse(cli: Cli, *words: str) -> Result:
    result = cli("rehearse", *words)
    assert result.code == 0, result
    return result


def gpus(cli: Cli) -> int:
    return int(cli.status(cli.latest())["virtual_gpus"])


@pytest.mark.exhaustive(unless=["job2-gpus_per_node = 5\\n-options2-5"])
@pytest.mark.parametrize(
    ("job", "config", "options", "expected"),
    [
        (JOB, "", (), 2),
        (JOB + "slurm: {gpus_per_node: 'a100:3'}\n", "", (), 3),
        (JOB, "gpus_per_node = 5\n", (), 5),
        (JOB + "virtual_gpus: 4\n", "gpus_per_node = 5\n", (), 4),
        (JOB, "", ("-w", "1x3"), 3),
        (JOB + "slurm: {gpus_per_node: 2}\n", "", ("-w", "2x1"), 1),
        (JOB.replace("instance: 2", "instance: 1") + "slurm: {gpus_per_node: 4}\n", "", ("-w", "1x2"), 4),
        (JOB, "", ("--virtual-gpus", "6"), 6),
    ],
)
def test_a_node_has_the_gpus_of_the_jobs_own_compute(
    cli: Cli, job: str, config: str, options: tuple[str, ...], expected: int
) -> None:
    cli.write("job.yml", job)
    cli.write("worldsize.toml", CLUSTER + config)
    rehearse(cli, "job.yml", "--dry-run", *options)
    result = rehearse(cli, "job.yml", *options)
    assert gpus(cli) == expected
    assert result.out.count("GPU %d: Virtual GPU (worldsize rehearsal)" % (expected - 1)) >= 1
    assert "GPU %d:" % expected not in result.out


def test_every_output_says_that_it_is_one(cli: Cli) -> None:
    words = ("--virtual-gpus", "3", "-w", "1x1", "--", "echo", "trained")
    dry = cli("run", "--dry-run", *words)
    assert "# a rehearsal with 3 virtual GPUs per node\n" in dry.out
    result = cli("run", *words)
    run = cli.latest()
    banner, *_, end, limits = result.err.strip().splitlines()
    assert (
        MARK in banner and MARK in end and limits.startswith("this was a rehearsal on virtual GPUs; it does not show:")
    )
    assert MARK in cli("status", run).out and MARK in cli("logs", run).err and MARK in cli("wait", run).err
    assert "local (rehearsal)" in cli("list").out
    assert json.loads(cli("list", "-o", "json").out)[0]["virtual_gpus"] == 3
    assert json.loads(cli("status", run, "-o", "json").out)["virtual_gpus"] == 3
    assert json.loads(cli("logs", run, "-o", "json").out) == {
        "rank": 0,
        "node": 0,
        "line": "trained",
        "virtual_gpus": 3,
    }
    assert json.loads(cli.read(run, "result.json"))["summary"]["virtual_gpus"] == 3
    assert json.loads(cli.read(run, "record.json"))["rehearsal"] == {"virtual_gpus": 3, "offline": False}
    submitted = cli("submit", *words)
    assert MARK in submitted.err and cli("wait", submitted.out.strip()).code == 0


def test_a_run_that_is_none_says_nothing_of_it(cli: Cli) -> None:
    result = cli("run", "-w", "1x1", "--", "sh", "-c", "command -v nvidia-smi; env")
    run = cli.latest()
    said = (
        result.out + result.err + cli("status", run, "-o", "json").out + cli("list").out + cli.read(run, "result.json")
    )
    assert result.code == 0 and "rehearsal" not in said and "virtual gpu" not in said.lower()
    assert not os.path.exists(cli.path(run, "inrank", "bin")) and "virtual_gpu" not in result.out


def test_real_nodes_and_several_runs_are_refused(cli: Cli) -> None:
    cli.write("job.yml", JOB)
    cli.write("worldsize.toml", CLUSTER)
    result = cli("run", "job.yml", "--virtual-gpus", "2")
    assert result.code == 2 and "virtual GPUs are for virtual nodes, and those of cluster are real" in result.err
    assert "worldsize rehearse" in result.err
    result = cli("run", "--virtual-gpus", "2", "--count", "3", "--", "true")
    assert result.code == 2 and "one run is rehearsed at a time" in result.err
    result = cli("run", "--virtual-gpus", "2", "-w", "1x3", "--", "true")
    assert result.code == 2 and "3 processes per node, but a node has 2 GPUs" in result.err
    assert cli("run", "--virtual-gpus", "0", "--", "true").code == 2
    assert json.loads(cli("list", "-o", "json").out) == []


def test_modules_are_left_out_and_offline_nodes_stay_offline(cli: Cli) -> None:
    cli.write("job.yml", JOB + "modules: [cuda/12.4]\n")
    cli.write("worldsize.toml", CLUSTER + "offline = true\n")
    result = rehearse(cli, "job.yml")
    assert "modules are not loaded in a rehearsal: cuda/12.4" in result.err
    run = cli.latest()
    assert cli.read(run, "attempt-0", "logs", "rank-00003.log").splitlines()[-1] == "1"
    assert json.loads(cli.read(run, "record.json"))["rehearsal"]["offline"] is True


def test_paths_of_a_share_are_taken_for_what_they_are_here(cli: Cli) -> None:
    os.makedirs(os.path.join(cli.root, "share", "data"))
    config = '[compute.cluster]\ntype = "hpcpack"\nshare = {node = "/nowhere/app", local = "%s"}\n'
    cli.write("worldsize.toml", config % os.path.join(cli.root, "share"))
    cli.write(
        "job.yml", JOB.replace("nvidia-smi -L", "ls -d ${{inputs.d}}") + "inputs: {d: {path: /nowhere/app/data}}\n"
    )
    assert os.path.join(cli.root, "share", "data") in rehearse(cli, "job.yml", "-w", "1x1").out


def test_nvidia_smi(cli: Cli) -> None:
    script = """
nvidia-smi --query-gpu=index,memory.total --format=csv
nvidia-smi --query-gpu=name,memory.total,utilization.gpu --format=csv,noheader,nounits -i 1
nvidia-smi --query-gpu=gpu_uuid --format=csv,noheader | wc -l
nvidia-smi | grep -c 'Virtual GPU'
nvidia-smi --query-gpu=nonsense --format=csv; echo $?
nvidia-smi topo -m; echo $?
"""
    result = cli("run", "--virtual-gpus", "2", "-w", "1x1", "--fold", "off", "--", "sh", "-c", script)
    assert [line.partition(": ")[2] for line in result.out.splitlines()] == [
        "index, memory.total [MiB]",
        "0, 81920 MiB",
        "1, 81920 MiB",
        "Virtual GPU (worldsize rehearsal), 81920, 0",
        "2",
        "2",
        'Field "nonsense" is not a valid field to query.',
        "2",
        "nvidia-smi of a rehearsal does not know topo (docs/how-to/training/rehearsal.md)",
        "2",
    ]
