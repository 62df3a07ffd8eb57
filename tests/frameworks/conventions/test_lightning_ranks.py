"""Lightning finds its ranks in torch's variables, on every compute, and is no batch job of Slurm where no Slurm is."""

from __future__ import annotations

from typing import Any

import pytest
from driver import Cli
from found_places import SAY, numbers, places, run
from training import needs

ENVIRONMENT = ".venv-conventions"
pytestmark = [pytest.mark.timeout(300), needs(ENVIRONMENT)]

FIT = """
import os, signal, sys
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, _):
        loss = self.layer(batch).mean()
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

class Tell(Callback):
    def on_train_start(self, trainer, _):
        self.requeues = signal.getsignal(signal.SIGUSR1) is not signal.SIG_DFL

devices, nodes = map(int, sys.argv[1:])
quiet = {"enable_progress_bar": False, "enable_model_summary": False, "log_every_n_steps": 1, "max_epochs": 1}
tell = Tell()
trainer = Trainer(accelerator="cpu", devices=devices, num_nodes=nodes, callbacks=[tell], **quiet)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.rand(8, 4), 2))
say(
    rank=trainer.global_rank,
    world=trainer.world_size,
    local=trainer.local_rank,
    log=os.path.relpath(trainer.log_dir),
    saved=os.path.relpath(trainer.checkpoint_callback.best_model_path),
    requeues=tell.requeues,
    job=os.environ.get("SLURM_JOB_ID"),
    found=type(trainer._accelerator_connector.cluster_environment).__name__,
)
"""


def fitted(cli: Cli, world: str, devices: int, nodes: int, **keys: Any) -> list[dict[str, Any]]:
    command = "python found.py %d %d" % (devices, nodes)
    found: list[dict[str, Any]] = places(cli, FIT, world, ENVIRONMENT, command, **keys)
    return found


def test_two_ranks_log_where_they_would_without_a_launcher(cli: Cli) -> None:
    found = fitted(cli, "1x2", 2, 1)
    assert numbers(found) == [(0, 2), (1, 2)] and [each["local"] for each in found] == [0, 1]
    assert {each["log"] for each in found} == {"lightning_logs/version_0"}
    assert {each["saved"] for each in found} == {"lightning_logs/version_0/checkpoints/epoch=0-step=2.ckpt"}
    assert not any(each["requeues"] for each in found)


@pytest.mark.exhaustive
@pytest.mark.parametrize("world", ["1x1", "2x1"])
def test_every_compute(every_place: Cli, world: str, request: pytest.FixtureRequest) -> None:
    """On Slurm, Lightning names the directory after Slurm's own job."""
    nodes = int(world[0])
    found = fitted(every_place, world, 1, nodes)
    assert numbers(found) == [(rank, nodes) for rank in range(nodes)]
    version = found[0]["job"] if "[slurm" in request.node.name else "0"
    assert {each["log"] for each in found} == {"lightning_logs/version_" + version}
    assert not any(each["requeues"] for each in found)


@pytest.mark.exhaustive
def test_a_job_that_names_slurm_gets_what_lightning_makes_of_it(cli: Cli) -> None:
    (found,) = fitted(cli, "1x1", 1, 1, conventions=["slurm"])
    assert found["found"] == "SLURMEnvironment" and found["requeues"]
    assert found["log"] == "lightning_logs/version_" + found["job"]


@pytest.mark.exhaustive
def test_lightning_starts_its_own_processes_where_no_rank_is_told_its_place(cli: Cli) -> None:
    found = fitted(cli, "1x1", 2, 1, conventions=["azureml"])
    assert numbers(found) == [(0, 2), (1, 2)]
    assert {each["log"] for each in found} == {"lightning_logs/version_0"}


@pytest.mark.exhaustive
def test_more_devices_than_ranks_are_refused_at_once(cli: Cli) -> None:
    cli.write("found.py", SAY + FIT)
    assert run(cli, "python found.py 2 1", "1x1", ENVIRONMENT).code == 1
    assert "does not match the world size (1)" in cli.status()["failure"]["exception"]["message"]


@pytest.mark.exhaustive
def test_a_torchrun_in_the_only_rank_starts_its_own(cli: Cli) -> None:
    found = places(cli, FIT, "1x1", ENVIRONMENT, "torchrun --standalone --nproc-per-node 2 found.py 2 1")
    assert numbers(found) == [(0, 2), (1, 2)] and [each["local"] for each in found] == [0, 1]
    assert {each["log"] for each in found} == {"lightning_logs/version_0"}
