"""JAX, TensorFlow, Ray and Horovod in plain ranks: each finds what is there, and none believes in more."""

from __future__ import annotations

import pytest
from driver import Cli
from found_places import numbers, places
from training import needs

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(300)]

JAX = """
import jax
jax.distributed.initialize()
say(rank=jax.process_index(), world=jax.process_count(), devices=jax.device_count())
"""

TENSORFLOW = """
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
say(rank=strategy.cluster_resolver.task_id or 0, world=strategy.num_replicas_in_sync)
"""

RAY = """
import os
import ray
ray.init()

@ray.remote
def where():
    return ray.get_runtime_context().get_node_id()

nodes = [node["NodeID"] for node in ray.nodes()]
say(rank=int(os.environ["RANK"]), world=len(nodes), same=ray.get(where.remote()) == nodes[0])
"""

HOROVOD = """
import horovod.torch as hvd
import torch
hvd.init()
say(rank=hvd.rank(), world=hvd.size(), sum=hvd.allreduce(torch.ones(1), op=hvd.Sum).item())
"""


@needs(".venv-jax")
@pytest.mark.parametrize("world", ["1x1", "1x2", "2x1"])
def test_plain_ranks_of_jax(every_place: Cli, world: str) -> None:
    """By Slurm's variables, on every compute; one process is a world of one."""
    found = places(every_place, JAX, world, ".venv-jax")
    ranks = int(world[0]) * int(world[2])
    assert numbers(found) == [(rank, ranks) for rank in range(ranks)] and {each["devices"] for each in found} == {ranks}


@needs(".venv-tensorflow")
def test_one_process_of_tensorflow(cli: Cli) -> None:
    assert numbers(places(cli, TENSORFLOW, "1x1", ".venv-tensorflow")) == [(0, 1)]


@needs(".venv-ray")
def test_ray_starts_on_the_only_node(cli: Cli) -> None:
    """Without `type: ray` no cluster is named."""
    (found,) = places(cli, RAY, "1x1", ".venv-ray")
    assert found["world"] == 1 and found["same"]


@needs(".venv-horovod")
@pytest.mark.parametrize(
    ("command", "ranks"), [("python found.py", 1), ("horovodrun --gloo -np 2 python found.py", 2)], ids=["none", "run"]
)
def test_horovod_in_the_only_rank(cli: Cli, command: str, ranks: int) -> None:
    """horovodrun marks the lines of its processes: they are found in what the rank has printed."""
    found = places(cli, HOROVOD, "1x1", ".venv-horovod", command)
    assert numbers(found) == [(rank, ranks) for rank in range(ranks)] and {each["sum"] for each in found} == {ranks}
