"""Horovod for real: compiled with gloo, its ranks meet at its own rendezvous server; with PyTorch and TensorFlow."""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest
from driver import Cli
from training import PATIENCE, ROOT, accuracy, example, needs, ranks, trained, trap

pytestmark = [pytest.mark.timeout(300), needs(".venv-horovod")]
ENVIRONMENT = os.path.join(ROOT, ".venv-horovod")
TENSORFLOW = ("--set", "inputs.framework=tensorflow")


@pytest.mark.exhaustive(unless=["local-2x1-torch"])
@pytest.mark.parametrize("words", [(), TENSORFLOW], ids=["torch", "tensorflow"])
def test_gradients_are_averaged_over_the_nodes(place: Cli, world: str, words: tuple[str, ...]) -> None:
    called = trap(place, "ssh", "horovodrun")
    logs = trained(place, example("horovod-digits"), "-w", world, *words)
    assert not os.path.exists(called)
    assert not [name for name in os.listdir(place.path(place.latest(), "attempt-0", "logs")) if "mpirun" in name]
    assert accuracy(logs) > 0.85 and "\nranks=%d\n" % ranks(world) in logs[0]
    assert place.status(place.latest())["warnings"] == [], "the rendezvous server is no rank's"


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun: sh scripts/system-packages.sh")
def test_under_mpirun(cli: Cli) -> None:
    """One that was built without MPI still finds the others."""
    words = ("--set", "distribution.launcher=mpirun", "--set", "inputs.epochs=2")
    logs = trained(cli, example("horovod-digits"), *words)
    assert "\nranks=4\n" in logs[0] and accuracy(logs) > 0.7
    assert cli.status()["warnings"] == []
    assert os.path.exists(cli.path(cli.latest(), "attempt-0", "logs", "mpirun-0000.log"))


FAILING = """
import time
import horovod.torch as hvd, torch

hvd.init()
for step in range(1000):
    hvd.allreduce(torch.ones(10))
    if step == 5 and hvd.rank() == 2:
        open("outputs/failed", "w").write(repr(time.time()))
        raise ValueError("bad batch")
"""


@pytest.mark.exhaustive
def test_a_rank_that_fails_ends_all(cli: Cli) -> None:
    cli.write("train.py", FAILING)
    job = {
        "command": "python train.py",
        "code": ".",
        "environment": ENVIRONMENT,
        "distribution": {"type": "horovod", "process_count_per_instance": 2},
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
