"""transformers' Trainer finds its ranks in torch's variables and writes where it is told."""

from __future__ import annotations

import pytest
from driver import Cli
from found_places import numbers, places
from training import needs

ENVIRONMENT = ".venv-conventions"
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(300), needs(ENVIRONMENT)]

TRAIN = """
import os
import torch
from transformers import Trainer, TrainingArguments

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x, labels=None):
        return {"loss": self.layer(x).mean()}

wanted = {"per_device_train_batch_size": 2, "max_steps": 2, "use_cpu": True, "disable_tqdm": True}
arguments = TrainingArguments(output_dir="out", report_to="tensorboard", logging_steps=1, **wanted)
trainer = Trainer(Model(), arguments, train_dataset=[{"x": torch.rand(4)} for _ in range(8)])
trainer.train()
say(
    rank=arguments.process_index,
    world=arguments.world_size,
    local=arguments.local_process_index,
    written=sorted(os.listdir("out")),
    logs=len(os.listdir("out/runs")),
    samples=trainer.state.train_batch_size,
)
"""


@pytest.mark.parametrize("world", ["1x1", "1x2", "2x1"])
def test_ranks_are_processes_of_the_trainer(cli: Cli, world: str) -> None:
    found = places(cli, TRAIN, world, ENVIRONMENT)
    ranks = int(world[0]) * int(world[2])
    assert numbers(found) == [(rank, ranks) for rank in range(ranks)]
    assert all(each["written"] == ["checkpoint-2", "runs"] and each["logs"] == 1 for each in found)


def test_two_nodes_on_every_compute(every_place: Cli) -> None:
    assert numbers(places(every_place, TRAIN, "2x1", ENVIRONMENT)) == [(0, 2), (1, 2)]


def test_a_torchrun_in_the_only_rank_starts_its_own(cli: Cli) -> None:
    found = places(cli, TRAIN, "1x1", ENVIRONMENT, "torchrun --standalone --nproc-per-node 2 found.py")
    assert numbers(found) == [(0, 2), (1, 2)] and [each["local"] for each in found] == [0, 1]
