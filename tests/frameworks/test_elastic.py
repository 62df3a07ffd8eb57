"""torchrun that starts ranks again, and goes on without a node: under our agents, on every way of meeting."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from typing import Any

import pytest
from driver import Cli, wait_for
from training import PATIENCE

from worldsize.agent.launchers.torchrun import torchrun_argv, torchrun_environment
from worldsize.errors import PlanError
from worldsize.jobspec.distributions.pytorch import PyTorchDistribution
from worldsize.plan.plan import Plan
from worldsize.plan.rank_variables import Host, RendezvousResult
from worldsize.plan.run_paths import RunPaths


def plan_of(instances: int, *words: Any) -> Plan:
    arrangement = PyTorchDistribution(2, "torchrun", *words).arrange(instances)
    options = {"options": arrangement.options, "launcher": "torchrun"}
    return Plan("r", "n", "lab", 1.0, 0, arrangement.nodes, ("train.sh",), {}, **options)


def argv(plan: Plan, node: int, environment: dict[str, str] | None = None) -> tuple[str, ...]:
    world = RendezvousResult("10.0.0.1", 7777, tuple(Host("n%d" % each, 8) for each in range(len(plan.nodes))))
    return torchrun_argv(plan, world, plan.nodes[node], RunPaths("/runs/r"), environment or {})


def test_what_torchrun_is_told() -> None:
    plain = plan_of(2)
    assert plain.options == {} and plain.spare == 0
    assert {"--nnodes=2", "--max-restarts=0", "--rdzv-conf=is_host=0"} < set(argv(plain, 1))
    elastic = plan_of(2, "1:2", 3)
    assert elastic.options == {"min_nodes": 1, "max_restarts": 3} and elastic.spare == 1
    words = argv(elastic, 0)
    assert {"--nnodes=1:2", "--max-restarts=3", "--rdzv-conf=is_host=1,last_call_timeout=5"} < set(words)
    static = argv(plan_of(2, None, 0, "static"), 1)
    assert {"--rdzv-backend=static", "--node-rank=1", "--master-addr=10.0.0.1", "--master-port=7777"} < set(static)
    assert not any(word.startswith(("--rdzv-endpoint", "--rdzv-conf", "--rdzv-id")) for word in static)


def test_ranks_that_are_started_again_have_a_store_of_their_own_unless_the_job_says_otherwise() -> None:
    name = "TORCH_DISABLE_SHARE_RDZV_TCP_STORE"
    assert name not in torchrun_environment(plan_of(2), {})
    assert torchrun_environment(plan_of(2, None, 1), {"A": "b"}) == {name: "1", "A": "b"}
    assert torchrun_environment(plan_of(2, None, 1), {name: "0"}) == {name: "0"}


@pytest.mark.parametrize(
    ("words", "instances", "message"),
    [
        (("1:2", 1), 3, "nodes is 1:2, but the run starts on 3"),
        (("2:1",), 2, "'2:1' is not a range of nodes"),
        (("0:2",), 2, "is not a range of nodes"),
        (("two",), 2, "is not a range of nodes"),
        (("1:2", 0, "static"), 2, "with static rendezvous each node would start its own ranks again"),
        ((None, 1, "static"), 2, "with static rendezvous each node would start its own ranks again"),
    ],
)
def test_what_cannot_be(words: tuple[Any, ...], instances: int, message: str) -> None:
    with pytest.raises(PlanError, match=re.escape(message)):
        plan_of(instances, *words)


def test_a_range_of_one_number_and_words_that_are_torchruns_alone() -> None:
    assert plan_of(2, "2").spare == plan_of(2, "2:4").spare == 0
    assert plan_of(1, None, 3, "static").options == {"max_restarts": 3, "rdzv_backend": "static"}
    with pytest.raises(PlanError, match="nodes, max_restarts: for torchrun only"):
        PyTorchDistribution(1, "direct", "1:2", 1).arrange(2)


def test_a_range_is_read_as_it_is_written(cli: Cli) -> None:
    """YAML takes 1:2 for sixty-two."""
    cli.write(
        "job.yml",
        "command: 'true'\nresources: {instance_count: 2}\n"
        "distribution: {type: pytorch, launcher: torchrun, nodes: 1:2, max_restarts: 1}\n",
    )
    shown = cli.ok("run", "job.yml", "--dry-run").out
    assert "--nnodes=1:2" in shown and "--max-restarts=1" in shown


def job(cli: Cli, text: str, instances: int = 2, **distribution: Any) -> str:
    cli.write("train.py", text)
    value = {
        "command": "python train.py",
        "code": ".",
        "distribution": {"type": "pytorch", "launcher": "torchrun", **distribution},
        "resources": {"instance_count": instances},
    }
    cli.write("job.yml", json.dumps(value))
    return "job.yml"


FAILS = """
import os
if int(os.environ["TORCHELASTIC_RESTART_COUNT"]) < int(os.environ.get("GOOD", "9")):
    raise ValueError("attempt " + os.environ["TORCHELASTIC_RESTART_COUNT"])
"""


def test_the_last_attempts_failure_is_the_runs(cli: Cli) -> None:
    pytest.importorskip("torch")
    result = cli("run", job(cli, FAILS, 1, max_restarts=1), timeout=PATIENCE)
    failure = cli.status()["failure"]
    assert (result.code, failure["rank"], failure["exception"]["message"]) == (1, 0, "attempt 1"), result


TRAIN = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, size, again = dist.get_rank(), dist.get_world_size(), os.path.exists("outputs/failed")
names = ("WORLDSIZE_WORLD_SIZE", "WORLDSIZE_NODE_COUNT", "SLURM_NTASKS", "OMPI_COMM_WORLD_RANK")
open("outputs/up-%d-of-%d" % (rank, size), "w").close()
awaited = os.environ.get("AWAITED_BY_%d" % size)
while awaited and not os.path.exists(awaited):
    time.sleep(0.1)
for step in range(int(os.environ.get("STEPS_OF_%d" % size, "5"))):
    if step == 3 and rank == 1 and not again and "FAIL" in os.environ:
        open("outputs/failed", "w").close()
        raise ValueError("bad batch")
    total = torch.ones(1)
    dist.all_reduce(total)
    time.sleep(0.1)
print("sum", int(total), "of", size, *(os.environ[name] for name in names), flush=True)
dist.destroy_process_group()
os._exit(0)
"""


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_static_rendezvous(cli: Cli) -> None:
    pytest.importorskip("torch")
    run = cli.run(job(cli, TRAIN, process_count_per_instance=1, rdzv_backend="static"))
    assert cli.read(run, "attempt-0", "logs", "rank-00001.log").endswith("sum 2 of 2 2 2 2 1\n")


@pytest.mark.exhaustive
@pytest.mark.timeout(300)
def test_all_ranks_are_started_again_when_one_fails(place: Cli) -> None:
    pytest.importorskip("torch")
    name = job(place, TRAIN, process_count_per_instance=1, max_restarts=2)
    result = place("run", name, "--set", "environment_variables.FAIL=1", timeout=PATIENCE)
    assert result.code == 0 and "ValueError: bad batch" in result.out, result
    run = place.latest()
    logs = [place.read(run, "attempt-0", "logs", "rank-%05d.log" % rank) for rank in (0, 1)]
    assert [log.splitlines()[-1] for log in logs] == ["sum 2 of 2 2 2 2 0", "sum 2 of 2 2 2 2 1"]


@pytest.mark.timeout(300)
def test_a_run_goes_on_without_a_node_that_is_lost(place: Cli) -> None:
    """A second node that is slow to come finds that torchrun has begun without it, and begins again with it."""
    pytest.importorskip("torch")
    name = job(place, TRAIN, process_count_per_instance=2, nodes="1:2", max_restarts=3)
    variables = ("STEPS_OF_4=100000", "AWAITED_BY_2=outputs/lost")
    run = place.submit(name, *(word for each in variables for word in ("--set", "environment_variables." + each)))
    up = [place.path(run, "outputs", "up-%d-of-4" % rank) for rank in range(4)]
    assert wait_for(lambda: all(map(os.path.exists, up)), PATIENCE)
    open(place.path(run, "outputs", "lost"), "w").close()
    for pid in of_node(run, 1):
        with contextlib.suppress(ProcessLookupError):  # the first one's end may be the next one's
            os.kill(pid, signal.SIGKILL)
    assert place("wait", run, timeout=PATIENCE).code == 0
    status = place.status(run)
    assert (status["state"], status["message"]) == ("SUCCEEDED", "continued without node 1")
    logs = [place.read(run, "attempt-0", "logs", "rank-%05d.log" % rank).splitlines() for rank in (0, 1)]
    assert [log[-1] for log in logs] == ["sum 2 of 2 2 1 2 0", "sum 2 of 2 2 1 2 1"]


def of_node(run: str, node: int) -> list[int]:
    """The processes of a node's torchrun and ranks, and its agent."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/environ" % name, "rb") as file:
                variables = dict(each.partition(b"=")[::2] for each in file.read().split(b"\0"))
            with open("/proc/%s/stat" % name) as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        own = variables.get(b"WORLDSIZE_RUN_ID", b"").decode() == run
        if own and variables.get(b"WORLDSIZE_NODE_RANK", b"") == b"%d" % node:
            found += [int(name)] + ([parent] if b"TORCHELASTIC_USE_AGENT_STORE" not in variables else [])
    return sorted(set(found))
