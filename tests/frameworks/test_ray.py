"""Ray: a head and workers of the run's nodes, the command once; nothing of it outlives the run."""

from __future__ import annotations

import os

import pytest
from driver import Cli, wait_for
from training import PATIENCE, ROOT, needs

pytestmark = [pytest.mark.timeout(300), needs(".venv-ray")]

JOB = """
command: python train.py
code: .
resources: {instance_count: 2}
distribution: {type: ray}
environment: %s
""" % os.path.join(ROOT, ".venv-ray")

JOINED = """
import os, sys, ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init()

@ray.remote(num_cpus=1)
def where():
    return ray.get_runtime_context().get_node_id()

nodes = [node["NodeID"] for node in ray.nodes()]
on = [where.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)) for node in nodes]
found = {*ray.get([each.remote() for each in on])}
print("nodes", len(ray.nodes()), "used", len(found), "rank", os.environ.get("RANK"), flush=True)
ray.shutdown()
ray.init("auto")
print("auto", len(ray.nodes()), flush=True)
sys.exit(7)
"""

LOST = """
import os, signal, time, ray
ray.init()
print("joined", flush=True)
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        words = open("/proc/%s/cmdline" % pid).read().split("\\0")
        mine = open("/proc/%s/environ" % pid).read()
    except OSError:
        continue
    own = "WORLDSIZE_RUN_ID=" + os.environ["WORLDSIZE_RUN_ID"] in mine and "WORLDSIZE_NODE_RANK=1" in mine
    if words[0].endswith("/raylet") and own:
        os.kill(int(pid), signal.SIGKILL)
time.sleep(600)
"""


def processes_of_ray() -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid) as file:
                words = file.read()
        except OSError:
            continue
        if ".venv-ray" in words or "/gcs_server" in words or words.startswith("ray::"):
            found.append(words)
    return found


def test_a_cluster_of_two_nodes_and_the_commands_exit_code(cli: Cli) -> None:
    cli.write("train.py", JOINED)
    cli.write("job.yml", JOB)
    result = cli("run", "job.yml", timeout=PATIENCE)
    assert "nodes 2 used 2 rank None" in result.out and "auto 2" in result.out, result
    assert result.code == 7
    assert processes_of_ray() == []


@pytest.mark.exhaustive
def test_a_run_that_is_cancelled_leaves_nothing(cli: Cli) -> None:
    cli.write("train.py", "import ray, time\nray.init()\nprint('joined', flush=True)\ntime.sleep(600)\n")
    cli.write("job.yml", JOB)
    run = cli.submit("job.yml")
    assert wait_for(lambda: "joined" in cli.ok("logs", run, "--rank", "0").out, PATIENCE)
    cli.ok("cancel", run)
    assert wait_for(lambda: cli.status(run)["state"] == "CANCELLED", PATIENCE)
    assert processes_of_ray() == []


@pytest.mark.exhaustive
def test_a_worker_whose_raylet_dies_is_the_runs_failure(cli: Cli) -> None:
    cli.write("train.py", LOST)
    cli.write("job.yml", JOB)
    result = cli("run", "job.yml", timeout=PATIENCE)
    failure = cli.status()["failure"]
    assert (result.code, failure["rank"], failure["node_rank"]) == (1, 1, 1), result
    assert failure["exception"]["message"].startswith("Ray has ended on this node")
    assert processes_of_ray() == []
