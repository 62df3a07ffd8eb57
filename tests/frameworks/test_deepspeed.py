"""DeepSpeed for real: ZeRO on ranks that are started directly, by mpirun, and by its own launcher without ssh."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest
from driver import Cli
from training import PATIENCE, ROOT, accuracy, example, needs, ranks, trained, trap

pytestmark = [pytest.mark.timeout(300), needs(".venv-deepspeed")]
ENVIRONMENT = os.path.join(ROOT, ".venv-deepspeed")
LAUNCHER = "command=deepspeed train.py --config ds_config.json --epochs ${{inputs.epochs}}"


def learnt(logs: list[str], world: str = "2x2") -> bool:
    assert "ZeRO stage 2, %d images per step" % (16 * ranks(world)) in logs[0] and not any(
        "accuracy" in log for log in logs[1:]
    )
    return accuracy(logs) > 0.85


def launcher_logs(cli: Cli) -> list[str]:
    return sorted(name for name in os.listdir(cli.path(cli.latest(), "attempt-0", "logs")) if "rank" not in name)


def test_ranks_share_out_the_optimizer(place: Cli, world: str) -> None:
    assert learnt(trained(place, example("deepspeed-zero2"), "-w", world), world)


@pytest.mark.exhaustive
def test_a_command_for_its_launcher_runs_as_it_is_the_way_azure_has_it(place: Cli) -> None:
    """`type: pytorch` and `deepspeed train.py …`, on two nodes without ssh between them."""
    called = trap(place, "ssh", "pdsh")
    words = ("--set", "distribution.type=pytorch", "--set", LAUNCHER)
    assert learnt(trained(place, example("deepspeed-zero2"), *words))
    assert not os.path.exists(called)
    assert {"deepspeed-0000.log", "deepspeed-0001.log"} <= set(launcher_logs(place))


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun: sh scripts/system-packages.sh")
def test_as_mpi_the_way_azure_has_it(cli: Cli) -> None:
    assert learnt(trained(cli, example("deepspeed-zero2"), "--set", "distribution.type=mpi"))
    assert "mpirun-0000.log" in launcher_logs(cli)


FAILING = """
import argparse, time
import deepspeed, torch

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank")
parser.parse_args()
deepspeed.init_distributed("gloo")
if torch.distributed.get_rank() == 2:
    open("outputs/failed", "w").write(repr(time.time()))
    raise ValueError("bad batch")
torch.distributed.barrier()
time.sleep(600)
"""


@pytest.mark.exhaustive
def test_a_rank_that_fails_ends_all(cli: Cli) -> None:
    """With its launcher in between, which tells nobody which rank it was."""
    cli.write("train.py", FAILING)
    job = {
        "command": "deepspeed train.py",
        "code": ".",
        "environment": ENVIRONMENT,
        "environment_variables": {"DS_ACCELERATOR": "cpu"},
        "distribution": {"type": "deepspeed", "process_count_per_instance": 2},
        "resources": {"instance_count": 2},
        "grace": 5,
    }
    cli.write("job.yml", json.dumps(job))
    result = cli("run", "job.yml", timeout=PATIENCE)
    took = time.time() - float(cli.read(cli.latest(), "outputs", "failed"))
    failure = cli.status()["failure"]
    assert (result.code, failure["rank"], failure["node_rank"], failure["exception"]["message"]) == (
        1,
        2,
        1,
        "bad batch",
    )
    assert took < 30


@pytest.mark.exhaustive
def test_trials_find_the_best_configuration(place: Cli, world: str) -> None:
    """By the throughput that DeepSpeed itself tells: eight times the batch in a step is faster."""
    words = ("-w", world, "--set", "autotune.search.zero_stage=[2]")
    result = place("run", example("deepspeed-autotune"), *words, timeout=PATIENCE)
    assert result.code == 0, result
    with open(place.path(place.latest(), "outputs", "ds_config.json")) as file:
        best = json.load(file)
    assert best["train_micro_batch_size_per_gpu"] == 64 and best["zero_optimization"] == {"stage": 2}
    assert best["steps_per_print"] == 20 and "\nbest: zero_stage=2 micro_batch=64  throughput=" in result.err
    table = place.read(place.latest(), "outputs", "trials.csv").splitlines()
    assert [row.split(",")[4] for row in table[1:]] == ["measured", "measured"]


OWN_TUNING = """
import argparse
import deepspeed, torch

parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
arguments = deepspeed.add_config_arguments(parser).parse_args()
model = torch.nn.Linear(64, 10)
data = torch.utils.data.TensorDataset(torch.randn(512, 64), torch.randint(10, (512,)))
engine, _, loader, _ = deepspeed.initialize(
    args=arguments, model=model, model_parameters=model.parameters(), training_data=data
)
for images, digits in loader:
    loss = torch.nn.functional.cross_entropy(engine(images.to(engine.device)), digits.to(engine.device))
    engine.backward(loss)
    engine.step()
"""
OWN_CONFIG = {
    "train_micro_batch_size_per_gpu": 8,
    "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": 1},
    "autotuning": {
        "enabled": True,
        "fast": False,
        "tuner_type": "gridsearch",
        "start_profile_step": 2,
        "end_profile_step": 4,
        "max_train_batch_size": 16,
        "min_train_micro_batch_size_per_gpu": 8,
        "max_train_micro_batch_size_per_gpu": 8,
        "tuner_num_trials": 1,
        "results_dir": "outputs/results",
        "exps_dir": "outputs/exps",
    },
}


@pytest.mark.exhaustive
def test_its_own_autotuning_where_the_job_asks_for_it(cli: Cli) -> None:
    cli.write("train.py", OWN_TUNING)
    cli.write("ds_config.json", json.dumps(OWN_CONFIG))
    cli.write(
        "job.yml",
        "command: deepspeed train.py --deepspeed_config ds_config.json\ncode: .\nenvironment: %s\n"
        "environment_variables: {DS_ACCELERATOR: cpu}\n"
        "distribution: {type: deepspeed, process_count_per_instance: 2}\nautotune: {by: deepspeed}\n" % ENVIRONMENT,
    )
    result = cli("run", "job.yml", timeout=PATIENCE)
    assert result.code == 0, result
    best = json.loads(cli.read(cli.latest(), "outputs", "results", "ds_config_optimal.json"))
    assert best["train_micro_batch_size_per_gpu"] == 8 and best["zero_optimization"]["stage"] == 1
    assert best["train_batch_size"] == 16  # two ranks
