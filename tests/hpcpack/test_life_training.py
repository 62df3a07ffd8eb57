"""Training on a simulated cluster: the examples, torchrun by ourselves and by the guide's own line."""

from __future__ import annotations

import os
import re
import shutil

import pytest
from driver import wait_for

from hpcpack.life import PATIENCE, Client

pytest.importorskip("torch")
pytestmark = [pytest.mark.timeout(400), pytest.mark.training]

EXAMPLES = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples")
LONG = 150.0


def bring(client: Client, example: str) -> str:
    """A copy of the example in the project; its job file."""
    shutil.copytree(os.path.join(EXAMPLES, example), os.path.join(client.project, example))
    return os.path.join(example, "job.yml")


@pytest.mark.exhaustive
def test_digits_train_on_two_nodes_with_two_processes_each(client: Client) -> None:
    job = bring(client, "digits")
    result = client("run", job, "-w", "2x2", "--set", "inputs.epochs=3", timeout=LONG)
    assert result.code == 0, result
    accuracy = re.findall(r"accuracy[^0-9]*([0-9.]+)", result.out)
    assert accuracy and float(accuracy[-1]) > (0.5 if float(accuracy[-1]) <= 1 else 50), result.out


RANKS = (
    "import os, torch.distributed as d; d.init_process_group('gloo'); "
    "found = [None] * d.get_world_size(); d.all_gather_object(found, (d.get_rank(), os.uname().nodename)); "
    "d.get_rank() == 0 and print(sorted(found), os.environ['MASTER_ADDR'] != '', flush=True); d.destroy_process_group()"
)


@pytest.mark.exhaustive(unless=["cn02"])
@pytest.mark.parametrize("endpoint", [None, "cn02"])
def test_torchrun_meets_where_the_job_says(client: Client, endpoint: str | None) -> None:
    """Ranks are numbered as the plan has them, whichever node is the meeting place."""
    client.configure('nodes = ["cn01", "cn02"]', *(['rdzv_endpoint = "%s"' % endpoint] if endpoint else []))
    distribution = {"type": "pytorch", "process_count_per_instance": 2, "launcher": "torchrun"}
    client.write("meet.py", RANKS.replace("; ", "\n"))
    client.job("python3 meet.py", code=".", distribution=distribution)
    text = client.ok("run", "job.yml", "--dry-run").out
    assert "python3 -m torch.distributed.run --nnodes=2 --nproc-per-node=2" in text and "--rdzv-backend=c10d" in text
    if endpoint:
        assert "--rdzv-endpoint=cn02:29400" in text
        other = client.ok("run", "job.yml", "--dry-run", "--set", "hpcpack.rdzv_endpoint=cn01:29417").out
        assert "--rdzv-endpoint=cn01:29417" in other
    meeting = ["--set", "hpcpack.rdzv_endpoint=cn02:29418"] if endpoint else []  # a port that no other test takes
    result = client("run", "job.yml", *meeting, timeout=LONG)
    assert result.code == 0, result
    assert "[(0, 'cn01'), (1, 'cn01'), (2, 'cn02'), (3, 'cn02')] True" in result.out


@pytest.mark.exhaustive
def test_the_guides_own_line_runs_from_the_share(client: Client) -> None:
    """A task on each of two nodes that the job names, each with the guide's torchrun line, which meets on the second of
    them. Port and id are others, for docs/how-to/clusters/hpcpack.md runs the guide's own."""
    source = os.path.join(client.simulator.share, "toy-%s" % os.path.basename(client.root))
    shutil.copytree(os.path.join(EXAMPLES, "toy-ddp", "src"), source)
    assert {"neural_network.py", "operations.py", "run_ddp.py"} == {
        name for name in os.listdir(source) if name.endswith(".py")
    }
    there = "/app/" + os.path.basename(source)
    line = (
        "python3 -m torch.distributed.run --nnodes=2 --nproc_per_node=2 --rdzv_id=101 --rdzv_backend=c10d "
        "--rdzv_endpoint=cn04:29419 %s/run_ddp.py --epochs 2 --save-every 1 --resume ./outputs" % there
    )
    client.write("job.yml", "command: %s\nhpcpack: {nodes: [cn03, cn04]}\n" % line)
    result = client("run", "job.yml", "-w", "2", timeout=LONG)
    assert result.code == 0, result
    assert "epoch 2/2 loss=" in result.out and "final loss=" in result.out
    number = client.number(client.latest())
    job = client.simulator.job(number)
    assert [job[name] for name in ("UnitType", "MinNodes", "MaxNodes")] == ["Node", "2", "2"]
    assert len(client.simulator.ask("GET", "/jobs/%d/tasks" % number)) == 2
    tasks = [client.simulator.task(number, task) for task in (1, 2)]
    assert [task["AllocatedNodes"] for task in tasks] == ["cn03", "cn04"]
    lines = [task["CommandLine"] for task in tasks]
    assert lines[0].replace("--node-rank 0", "--node-rank 1") == lines[1] and "agent" in lines[0]
    assert client.status(client.latest())["ranks"] == 2, "one process on each node, without a distribution"
    assert os.path.exists(client.path(client.latest(), "outputs", "checkpoint.pt"))


@pytest.mark.exhaustive
def test_the_toy_of_the_guide_as_a_job_file(client: Client) -> None:
    """Its torchrun has to find out itself that it runs where they meet, which it does by its host's address."""
    job = bring(client, "toy-ddp")
    result = client("run", job, "--set", "inputs.epochs=2", "--set", "inputs.save_every=1", timeout=LONG)
    assert result.code == 0, result


def test_a_rank_that_fails_in_training_is_named_with_its_node(client: Client) -> None:
    client.configure('nodes = ["cn02", "cn04"]')
    client.write(
        "fail.py",
        "import os, time\n"
        "import torch.distributed as d\n"
        "d.init_process_group('gloo')\n"
        "d.barrier()\n"
        "if d.get_rank() == 3:\n"
        "    raise ValueError('bad batch')\n"
        "d.barrier()\n",
    )
    result = client("run", "-w", "2x2", "--", "python3", "fail.py", timeout=LONG)
    assert result.code == 1
    failure = client.status(client.latest())["failure"]
    assert (failure["rank"], failure["node_rank"], failure["exception"]["message"]) == (3, 1, "bad batch")
    wait_for(lambda: client.simulator.job(client.number(client.latest()))["State"] == "Failed", PATIENCE)
