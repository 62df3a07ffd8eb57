"""Scripts for several nodes with GPUs, in the style of the well-known guides, run unmodified on virtual GPUs."""

from __future__ import annotations

import re

import pytest
from driver import Cli
from ranks import rehearsed

pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(300)


@pytest.mark.exhaustive
def test_ddp_with_mixed_precision_and_checkpoints_as_a_job_file_of_a_cluster(cli: Cli) -> None:
    cli.write(
        "job.yml",
        "command: python ddp_amp.py --epochs 2\ncode: .\ncompute: cluster\nmodules: [cuda/12.4]\n"
        "resources: {instance_count: 2}\ndistribution: {type: pytorch, process_count_per_instance: 2}\n"
        "slurm: {partition: gpu, gpus_per_node: 'a100:2'}\n",
    )
    logs = rehearsed(cli, "rehearse", "job.yml")
    said = [re.search(r"^backend=nccl gpus=2 losses=(.*)$", log, re.M) for log in logs]
    assert len(logs) == 4 and all(said) and len({found[1] for found in said if found}) == 1
    assert [re.findall(r"^equal (.*)$", log, re.M) for log in logs] == [["True cuda:0"], ["True cuda:1"]] * 2


@pytest.mark.exhaustive
def test_a_language_model_under_torchrun(cli: Cli) -> None:
    cli.write(
        "job.yml",
        "command: python gpt_trainer.py\ncode: .\nresources: {instance_count: 2}\nvirtual_gpus: 2\n"
        "distribution: {type: pytorch, process_count_per_instance: 2, launcher: torchrun}\n",
    )
    logs = rehearsed(cli, "run", "job.yml")
    assert "learned=True device=cuda:0" in logs[0] and "learned" not in "".join(logs[1:])


@pytest.mark.exhaustive
def test_one_process_per_node_that_spawns_one_per_gpu(cli: Cli) -> None:
    logs = rehearsed(cli, "run", "-w", "2x1", "--virtual-gpus", "2", "--", "python", "imagenet_like.py")
    # two processes share a log: text and newline are written apart, so that two lines may come as one
    places = re.findall(r"rank (\d) of 4 on (cuda:\d): 16 images", "".join(logs))
    assert sorted(places) == [("0", "cuda:0"), ("1", "cuda:1"), ("2", "cuda:0"), ("3", "cuda:1")]


@pytest.mark.exhaustive
def test_fully_sharded_on_a_mesh_of_gpus(cli: Cli) -> None:
    logs = rehearsed(cli, "run", "-w", "2x2", "--virtual-gpus", "2", "--", "python", "fsdp2.py")
    assert "saved 884 values" in logs[0]
    for rank, log in enumerate(logs):
        place = "cuda:%d" % (rank % 2)
        assert "learned=True loss on %s parameter on %s norm=True" % (place, place) in log


@pytest.mark.exhaustive
def test_accelerate_believes_in_several_gpus(cli: Cli) -> None:
    pytest.importorskip("accelerate")
    logs = rehearsed(cli, "run", "-w", "2x2", "--virtual-gpus", "2", "--", "python", "with_accelerate.py")
    for rank, log in enumerate(logs):
        assert "DistributedType.MULTI_GPU cuda:%d 4 learned=True" % (rank % 2) in log


@pytest.mark.exhaustive
@pytest.mark.parametrize("end", ["destroy", "leave"])
def test_nothing_of_gloo_lives_on_into_the_end_of_the_interpreter(cli: Cli, end: str) -> None:
    """Where it does, some ranks abort there, with all their work done: 4 runs in 14 on a busy machine."""
    logs = rehearsed(cli, "run", "-w", "1x2", "--virtual-gpus", "2", "--", "python", "leaving.py", end)
    assert [re.findall(r"^threads (.*)$", log, re.M) for log in logs] == [["True 0"]] * 2
