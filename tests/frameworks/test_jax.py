"""JAX: `jax.distributed.initialize()` without arguments finds the others on every compute."""

from __future__ import annotations

import os
import time

import pytest
from driver import Cli
from training import PATIENCE, ROOT, accuracy, example, needs, trained

pytestmark = [pytest.mark.timeout(300), needs(".venv-jax")]
PYTHON = os.path.join(ROOT, ".venv-jax", "bin", "python")


def test_psum_and_a_sharded_fit(place: Cli) -> None:
    logs = trained(place, example("jax-psum"))
    assert accuracy(logs) > 0.98
    assert "processes=4 devices=4\nallreduce=ok\n" in logs[0]


def test_plain_ranks_find_each_other_too_and_one_that_fails_ends_all(cli: Cli) -> None:
    cli.write(
        "train.py",
        "import jax\n"
        "jax.distributed.initialize()\n"
        "print('process', jax.process_index(), 'of', jax.process_count(), flush=True)\n"
        "import os, time\n"
        "if jax.process_index() == 1:\n"
        "    while not os.path.exists('outputs/up'):\n"
        "        time.sleep(0.02)\n"
        "    raise ValueError('bad batch')\n"
        "open('outputs/up', 'w').close()\n"
        "time.sleep(600)\n",
    )
    cli.write("worldsize.toml", "[compute.local]\ngrace = 1\n")
    started = time.monotonic()
    result = cli("run", "-w", "2x1", "--", PYTHON, "train.py", timeout=PATIENCE)
    assert time.monotonic() - started < 120
    failure = cli.status()["failure"]
    assert "process 0 of 2" in result.out and "process 1 of 2" in result.out
    assert (result.code, failure["rank"], failure["exception"]["message"]) == (1, 1, "bad batch")
