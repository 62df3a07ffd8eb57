"""accelerate finds its ranks in torch's variables: the rank's own, or those of a launcher that the rank has started."""

from __future__ import annotations

import pytest
from driver import Cli
from found_places import numbers, places
from training import needs

ENVIRONMENT = ".venv-conventions"
pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(300), needs(ENVIRONMENT)]

REDUCE = """
import torch
from accelerate import Accelerator
own = Accelerator(cpu=True)
total = own.reduce(torch.ones(1)).item()
say(rank=own.process_index, world=own.num_processes, local=own.local_process_index, sum=total)
own.end_training()
"""

NOTEBOOK = """
from accelerate import Accelerator, notebook_launcher

def work():
    own = Accelerator(cpu=True)
    say(rank=own.process_index, world=own.num_processes)

if __name__ == "__main__":
    notebook_launcher(work, num_processes=2)
"""

TORCHRUN = "torchrun --standalone --nproc-per-node 2 found.py"
LAUNCH = "accelerate launch --cpu --num_processes 1 --num_machines 1 --mixed_precision no --dynamo_backend no found.py"
WITH_MPIRUN = "mpirun --allow-run-as-root --oversubscribe -n 2 python found.py"


@pytest.mark.parametrize("world", ["1x1", "1x2", "2x1"])
def test_ranks_are_processes_of_accelerate(cli: Cli, world: str) -> None:
    found = places(cli, REDUCE, world, ENVIRONMENT)
    ranks = int(world[0]) * int(world[2])
    assert numbers(found) == [(rank, ranks) for rank in range(ranks)]
    assert [each["local"] for each in found] == ([0, 1] if world == "1x2" else [0] * ranks)
    assert {each["sum"] for each in found} == {ranks}


def test_two_nodes_on_every_compute(every_place: Cli) -> None:
    assert numbers(places(every_place, REDUCE, "2x1", ENVIRONMENT)) == [(0, 2), (1, 2)]


@pytest.mark.parametrize(("command", "ranks"), [(TORCHRUN, 2), (LAUNCH, 1)], ids=["torchrun", "accelerate launch"])
def test_a_launcher_in_the_only_rank_starts_its_own(cli: Cli, command: str, ranks: int) -> None:
    found = places(cli, REDUCE, "1x1", ENVIRONMENT, command)
    assert numbers(found) == [(rank, ranks) for rank in range(ranks)] and found[0]["sum"] == ranks


def test_a_torchrun_on_each_of_two_nodes(cli: Cli) -> None:
    """Its words are those of scripts for one task per node."""
    words = "--nnodes 2 --node-rank $SLURM_NODEID --master-addr $MASTER_ADDR --master-port $MASTER_PORT found.py"
    found = places(cli, REDUCE, "2x1", ENVIRONMENT, "torchrun --nproc-per-node 2 " + words)
    assert numbers(found) == [(rank, 4) for rank in range(4)] and {each["sum"] for each in found} == {4}


def test_processes_that_a_script_starts_by_itself(cli: Cli) -> None:
    assert numbers(places(cli, NOTEBOOK, "1x1", ENVIRONMENT)) == [(0, 2), (1, 2)]


def test_ranks_of_an_mpirun_in_the_only_rank(cli: Cli) -> None:
    """It would take each of them for the rank that has started mpirun, and train twice."""
    found = places(cli, REDUCE, "1x1", ENVIRONMENT, WITH_MPIRUN)
    assert numbers(found) == [(0, 2), (1, 2)] and [each["sum"] for each in found] == [2, 2]
