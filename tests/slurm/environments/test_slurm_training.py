"""Real training over gloo on two nodes: it learns, and a rank that fails is named at once."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest
from driver import SOURCE
from slurm.login import Login

pytestmark = pytest.mark.timeout(240)
EXAMPLES = os.path.join(os.path.dirname(SOURCE), "examples")


def copied(login: Login, example: str) -> str:
    """The example's job file in the project."""
    shutil.copytree(os.path.join(EXAMPLES, example), os.path.join(login.project, example))
    return os.path.join(example, "job.yml")


def test_the_digits_are_learnt_and_the_log_comes_live(login: Login) -> None:
    """A line is shown while its rank still runs: the first epoch's before the last one's is written."""
    job = copied(login, "digits")
    following = login.start("run", job, "-w", "2x1", "--set", "inputs.epochs=10")
    assert following.stdout is not None
    live, text = False, ""
    for line in following.stdout:
        text += line.decode()
        live = live or ("epoch" in text and not login.left(login.runs()[0], "../attempt-0/exit/node-0000.json"))
    assert following.wait(60) == 0, text
    assert following.stderr is not None
    following.stderr.close()
    following.stdout.close()
    accuracy = re.search(r"accuracy=([0-9.]+)", text)
    assert live and accuracy is not None and float(accuracy[1]) > 0.9, text
    status = login.ended(login.latest())
    assert (status["state"], status["ranks"], len(login.hosts(status["id"]))) == ("SUCCEEDED", 2, 2)


@pytest.mark.exhaustive
def test_hello_prints_what_the_tutorial_prints_on_nodes_and_gpus_that_slurm_allocated(login: Login) -> None:
    result = login("run", copied(login, "hello"), "-w", "2x4", "--set", "slurm.gpus_per_node=4", timeout=200)
    assert result.code == 0, result
    run = login.latest()
    logs = [login.read(run, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in range(8)]
    first, *others = login.hosts(run)
    address = re.match(r"WORLD_SIZE=8 MASTER_PORT=\d+ MASTER_ADDR=(\S+)\n", logs[0])
    assert address and len({first, *others}) == 2
    addresses = login.cluster.command("srun", "-N1", "-w", first, "hostname", "-I").split()
    assert address[1] in (first, *addresses), "the first node"
    assert logs[0].count("Group initialized? True\n") == 1
    for rank, log in enumerate(logs):
        host = (first, *others)[rank // 4]
        assert "Hello from rank %d of 8 on %s where there are 4 allocated GPUs per node.\n" % (rank, host) in log
        assert "host: %s, rank: %d, local_rank: %d\n" % (host, rank, rank % 4) in log


def test_eight_ranks_of_a_node_are_one_agents_and_in_the_conda_environment(login: Login) -> None:
    """One that is there, by the path below the project: what `conda activate` would do is done on the node."""
    prefix = Path(login.project, "envs", "torch-env")
    for part in ("conda-meta", "bin", "etc/conda/activate.d"):
        (prefix / part).mkdir(parents=True)
    (prefix / "bin" / "python").symlink_to(sys.executable)
    (prefix / "etc" / "conda" / "activate.d" / "mark.sh").write_text("export MARK=activated\n")
    command = "echo $SLURM_PROCID $SLURM_LOCALID $PPID $(command -v python) $MARK $CONDA_PREFIX"
    run = login.run(login.job(command, "1x8", environment=str(prefix)))
    said = [login.read(run, "attempt-0", "logs", "rank-%05d.log" % rank).split() for rank in range(8)]
    assert [each[:2] for each in said] == [[str(rank)] * 2 for rank in range(8)]
    assert len({each[2] for each in said}) == 1, "one agent started all"
    assert {tuple(each[3:]) for each in said} == {(str(prefix / "bin" / "python"), "activated", str(prefix))}


@pytest.mark.exhaustive
def test_a_rank_that_fails_in_the_midst_of_training_ends_all_in_seconds(login: Login) -> None:
    login.write(
        "train.py",
        "import os, time\n"
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "for step in range(10_000):\n"
        "    if step == 5 and dist.get_rank() == 2:\n"
        "        open('outputs/failed', 'w').write(repr(time.time()))\n"
        "        raise ValueError('bad batch')\n"
        "    dist.all_reduce(torch.ones(1000))\n"
        "    time.sleep(0.01)\n",
    )
    result = login("run", "-w", "2x2", "--", "python", "train.py", timeout=120)
    over = time.time()
    run = login.latest()
    took = over - float(login.read(run, "outputs", "failed"))
    failure = login.ended(run)["failure"]
    assert (failure["rank"], failure["node_rank"], failure["code"], result.code) == (2, 1, 1, 1)
    assert failure["exception"]["message"] == "bad batch"
    assert "rank 2 on node 1 (%s)" % login.hosts(run)[1] in result.err and took < 20


def test_torchrun_on_every_node(login: Login) -> None:
    login.write(
        "train.py",
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "total = torch.tensor([float(dist.get_rank())])\n"
        "dist.all_reduce(total)\n"
        "print('sum', int(total), 'of', dist.get_world_size(), os.environ['TORCHELASTIC_RUN_ID'] != '')\n"
        "dist.destroy_process_group()\n",
    )
    distribution = {"type": "pytorch", "process_count_per_instance": 2, "launcher": "torchrun"}
    run = login.run(login.job("python train.py", "2x2", distribution=distribution, code="."))
    assert "×4: sum 6 of 4 True" in login.ok("logs", run).lines
    assert login.ended(run)["state"] == "SUCCEEDED"
