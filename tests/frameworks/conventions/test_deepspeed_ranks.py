"""DeepSpeed finds its ranks in torch's variables, also where a rank's script has started its launcher or torchrun."""

from __future__ import annotations

import pytest
from driver import Cli
from found_places import numbers, places
from training import needs

ENVIRONMENT = ".venv-deepspeed"
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(300), needs(ENVIRONMENT)]

STEP = """
import deepspeed
import torch
deepspeed.init_distributed("gloo")
wanted = {"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
engine, *_ = deepspeed.initialize(model=torch.nn.Linear(4, 1), config=wanted)
engine.backward(engine(torch.rand(2, 4)).mean())
engine.step()
say(rank=engine.global_rank, world=engine.world_size, local=engine.local_rank)
"""
ON_CPUS = {"DS_ACCELERATOR": "cpu"}


@pytest.mark.parametrize("world", ["1x1", "1x2", "2x1"])
def test_plain_ranks(cli: Cli, world: str) -> None:
    found = places(cli, STEP, world, ENVIRONMENT, environment_variables=ON_CPUS)
    ranks = int(world[0]) * int(world[2])
    assert numbers(found) == [(rank, ranks) for rank in range(ranks)]


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --standalone --nproc-per-node 2 found.py",
        "bash -c 'deepspeed --master_port $MASTER_PORT --num_accelerators 2 found.py'",
    ],
)
def test_a_launcher_in_the_only_rank_starts_its_own(cli: Cli, command: str) -> None:
    """It refused a local rank other than that of OMPI_COMM_WORLD_LOCAL_RANK."""
    found = places(cli, STEP, "1x1", ENVIRONMENT, command, environment_variables=ON_CPUS)
    assert numbers(found) == [(0, 2), (1, 2)] and [each["local"] for each in found] == [0, 1]
