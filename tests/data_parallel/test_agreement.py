"""What ranks compare, and what they take over from rank 0."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.timeout(120)

HEAD = """\
import json, os, random, sys
import torch
from worldsize.wings.data_parallel.inrank.random_streams import RandomStreams
from worldsize.wings.data_parallel.inrank.rank_state import Training

rank = int(os.environ["WORLDSIZE_RANK"])
training = Training("split", os.environ)
world = training.world
"""
TAIL = """
print(json.dumps(found))
world.wait_for_others()
world.close()
"""


def found_by_ranks(script: str) -> list[Any]:
    """What each of two ranks finds."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLDSIZE_WORLD_SIZE": "2"}
    argv = [sys.executable, "-c", HEAD + script + TAIL]
    ranks = [
        subprocess.Popen(argv, env={**shared, "WORLDSIZE_RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    outputs = [each.communicate(timeout=100)[0] for each in ranks]
    assert [each.returncode for each in ranks] == [0, 0]
    return [json.loads(text) for text in outputs]


def test_weights_that_are_not_those_of_rank_0_differ() -> None:
    script = """
nan, inf = float("nan"), float("inf")
pairs = [(1.0, 1.0), (1.0, 1.0 + 1e-9), (1.0, 1.001), (nan, nan), (nan, 1.0), (1.0, nan), (inf, inf), (inf, 1.0)]
found = [world.differ([torch.ones(3), torch.tensor([pair[rank]])], 1e-6) for pair in pairs]
found.append(world.differ([torch.tensor([(1.0, 1.0 + 1e-9)[rank]], dtype=torch.float64)], 0.0))
found.append(world.differ([torch.tensor([nan])], 0.0))
"""
    expected = [False, False, True, False, True, True, False, True, True, False]
    assert found_by_ranks(script) == [expected, expected]


@pytest.mark.exhaustive(unless=["numpy_on1"])
@pytest.mark.parametrize("numpy_on", [(0,), (1,), (0, 1)])
def test_random_numbers_go_on_as_those_of_rank_0(numpy_on: tuple[int, ...]) -> None:
    """Also where a library has loaded numpy on one rank alone."""
    pytest.importorskip("numpy")
    script = f"""
import numpy.random
numpy.random.seed(rank)
if rank not in {numpy_on}:
    del sys.modules["numpy.random"]
random.seed(rank)
random.gauss(0, 1)
torch.manual_seed(rank)
generator = torch.Generator().manual_seed(rank)
RandomStreams(training).agree([generator])
found = [random.gauss(0, 1), random.random(), torch.rand(1).item(), torch.rand(1, generator=generator).item()]
if {numpy_on} == (0, 1):
    found.append(float(numpy.random.rand()))
"""
    first, second = found_by_ranks(script)
    assert first == second
