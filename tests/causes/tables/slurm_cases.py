"""What goes wrong on a cluster, made to go wrong on the real one of the tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable

from chaos.worlds import parent
from driver import wait_for
from slurm.by_hand import mounted
from slurm.config import Flavour
from slurm.login import PATIENCE, PATIENT, Login

from causes.slurm_case import SlurmCase

ONCE = {"requeue": False}
PYTHON = "exec python train.py"


def runs_script(text: str, world: str = "2x1", **keys: object) -> Callable[[Login], str]:
    """Each rank executes this Python."""

    def provoke(login: Login) -> str:
        login.write("train.py", text)
        return login.begin(PYTHON, world, code=".", **{"grace": 1, **keys})

    return provoke


def runs_command(command: str, world: str = "2x1", **keys: object) -> Callable[[Login], str]:
    return lambda login: login.begin(command, world, **{"grace": 1, **keys})


def at_its_time_limit(login: Login) -> str:
    """Slurm looks after limits every 30 s only."""
    run = login.running(PATIENT, slurm={"time": 1})
    soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 2))
    login.update(login.native(run), EndTime=soon)
    return run


def cancelled_by_scancel(login: Login) -> str:
    run = login.running(PATIENT)
    login.cluster.command("scancel", login.native(run))
    return run


def cancelled_here(login: Login) -> str:
    run = login.running(PATIENT)
    login.ok("cancel", run)
    return run


def preempted(login: Login) -> str:
    run = login.running(PATIENT, slurm={"partition": "low", "exclusive": True, **ONCE})
    first = login.running(PATIENT, "4x1", name="first.yml", slurm={"partition": "high", "exclusive": True})
    login("wait", run)
    login.ok("cancel", first)
    login.ended(first)
    return run


def on_a_node_that_is_set_down(login: Login) -> str:
    run = login.running(PATIENT, slurm=ONCE)
    login.cluster.command("scontrol", "update", "NodeName=node2", "State=DOWN", "Reason=test")
    return run


def on_a_node_without_power(login: Login) -> str:
    run = login.running(PATIENT, slurm=ONCE)
    login.cluster.power_off("node2")
    return run


def with_an_agent_that_is_killed(login: Login) -> str:
    """Its keeper sees it, and ends what it had started. Its ranks may be up before it has written that."""
    run = login.running(PATIENT, slurm=ONCE)
    wait_for(lambda: '"clock"' in login.read(run, "attempt-0/events/node-0001.jsonl"), PATIENCE)
    there = login.cluster.processes("node2")
    agents = {each.pid for each in there if "agent.pyz" in " ".join(each.argv) and each.name.startswith("python")}
    (kept,) = (pid for pid in agents if parent(pid) in agents)
    os.kill(kept, signal.SIGKILL)
    return run


def whose_nodes_meet(login: Login, address: str) -> str:
    """A run whose head says this address, and waits 3 s for the others."""
    later = {**ONCE, "sbatch_options": {"begin": "now+1hour"}}
    run = login.begin(PATIENT, setup=["export WORLDSIZE_ADDRESS=" + address], slurm=later, grace=1)
    path = login.path(run, "plan.json")
    with open(path) as file:
        plan = json.load(file)
    with open(path, "w") as file:
        json.dump({**plan, "rendezvous_timeout": 3.0}, file)
    login.release(run)
    return run


def with_nodes_that_do_not_meet(login: Login) -> str:
    """The head's address is of a network that the other node is not in."""
    address = ["ip", "address", "%s", "192.0.2.1/32", "dev", "lo"]
    verbs = [[word.replace("%s", verb) for word in address] for verb in ("add", "delete")]
    subprocess.check_call(login.cluster.on_node("node1", verbs[0]))
    run = whose_nodes_meet(login, "192.0.2.1")
    login("wait", run, timeout=90)
    subprocess.check_call(login.cluster.on_node("node1", verbs[1]))
    return run


def with_an_address_of_no_node(login: Login) -> str:
    return whose_nodes_meet(login, "192.0.2.1")


def with_a_node_that_cannot_be_reached(login: Login) -> str:
    """Once the job has begun."""
    here, go = (os.path.join(login.project, name) for name in ("here", "go"))
    run = login.begin(setup=["touch %s; until test -e %s; do sleep 0.1; done" % (here, go)], slurm=ONCE)
    wait_for(lambda: os.path.exists(here), PATIENCE)
    login.cluster.cut_network("node2")
    open(go, "w").close()
    return run


def with_a_node_that_does_not_see_the_run(login: Login) -> str:
    with mounted(login, "node2", login.cluster.shared, "-t", "tmpfs", "none"):
        run = login.begin()
        login("wait", run, timeout=90)
    return run


def with_a_file_that_one_node_lacks(login: Login) -> str:
    subprocess.check_call(login.cluster.on_node("node1", ["touch", "/tmp/shard.bin"]))
    return runs_script("import time\n\nopen('/tmp/shard.bin')\ntime.sleep(60)\n")(login)


def with_a_module_that_one_node_lacks(login: Login) -> str:
    subprocess.check_call(login.cluster.on_node("node1", ["sh", "-c", "mkdir /tmp/site; touch /tmp/site/tables.py"]))
    return runs_script("import tables\nimport time\n\ntime.sleep(60)\n", setup=["export PYTHONPATH=/tmp/site"])(login)


EXCEPTION_AND_CASCADES = """import os
import signal

import torch
import torch.distributed

torch.distributed.init_process_group("gloo")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
torch.distributed.barrier()
if os.environ["RANK"] == "2":
    raise ValueError("label 17 of 10 classes")
torch.distributed.all_reduce(torch.ones(4))
"""
LATER = """import os
import time

time.sleep(1 if os.environ["RANK"] == "0" else 0)
open("/tmp/shard.bin")
"""
HUNGRY = """import os
import time

if os.environ["RANK"] == "1":
    data = bytearray(400 << 20)
time.sleep(60)
"""
FAULT = """import ctypes
import os
import time

if os.environ["RANK"] == "1":
    ctypes.string_at(0)
time.sleep(60)
"""
EARLY = """import os
import time

time.sleep(60 if os.environ["RANK"] == "0" else 0)
"""


def batch_script(*lines: str) -> Callable[[Login], str]:
    """A batch script of the user's on two nodes."""

    def provoke(login: Login) -> str:
        login.write("job.slurm", "\n".join(("#!/bin/bash", "#SBATCH -N2 --ntasks-per-node=1", "set -e", *lines)) + "\n")
        login.write("train.py", 'import os\n\nassert os.environ["SLURM_PROCID"] != "1", "no data for task 1"\n')
        return login.submit("job.slurm")

    return provoke


SLURM_CASES: tuple[SlurmCase, ...] = (
    SlurmCase("time-limit", at_its_time_limit, confirms="(TIMEOUT)"),
    SlurmCase(
        "cancelled", cancelled_by_scancel, confirms="cancelled by root", variant="on Slurm, by scancel", quick=True
    ),
    SlurmCase("cancelled", cancelled_here, variant="on Slurm, by worldsize"),
    SlurmCase(
        "host-memory",
        runs_script(HUNGRY, "1x2", slurm={"mem": "150M"}),
        ranks=(1,),
        node=0,
        confirms="oom",
        variant="on Slurm, by the memory of the job",
        nodes=(0,),
        flavour=Flavour(nodes=2, accounting=False, limits=True),
    ),
    SlurmCase("preempted", preempted, confirms="(PREEMPTED)"),
    SlurmCase("node-failed", on_a_node_that_is_set_down, confirms="(NODE_FAIL)"),
    SlurmCase("node-failed", on_a_node_without_power, confirms="(NODE_FAIL)", variant="on Slurm, without power"),
    SlurmCase("node-lost", with_an_agent_that_is_killed, node=1),
    SlurmCase("nodes-missing", with_nodes_that_do_not_meet, varies=True),
    SlurmCase("nodes-missing", with_an_address_of_no_node, node=0, variant="on Slurm, an address of no node", nodes=()),
    SlurmCase("step-refused", with_a_node_that_cannot_be_reached, nodes=()),
    SlurmCase("node-not-ready", with_a_node_that_does_not_see_the_run, nodes=()),
    SlurmCase("node-not-ready", runs_command(PATIENT, setup=["false"]), nodes=(), variant="on Slurm, a line of setup"),
    SlurmCase("path-missing-on-one-node", with_a_file_that_one_node_lacks, ranks=(1,), node=1, quick=True),
    SlurmCase("path-missing", runs_script(LATER), ranks=(1,), node=1, variant="on Slurm, reported by one node first"),
    SlurmCase("module-missing-on-one-node", with_a_module_that_one_node_lacks, ranks=(1,), node=1),
    SlurmCase("exception", runs_script(EXCEPTION_AND_CASCADES, "2x2"), ranks=(2,), node=1),
    SlurmCase("segmentation-fault", runs_script(FAULT), ranks=(1,), node=1),
    SlurmCase(
        "segmentation-fault",
        batch_script("srun bash -c 'test $SLURM_PROCID = 0 || kill -SEGV $$'"),
        ranks=(1,),
        node=1,
        variant="on Slurm, in a batch script",
        nodes=(0,),
    ),
    SlurmCase("early-exit", runs_script(EARLY, hang_timeout=2)),
    SlurmCase("program-missing", runs_command("sleep $RANK; nosuchprogram"), "supported", ranks=(0,), node=0),
    SlurmCase("assertion", batch_script("srun python train.py"), ranks=(1,), node=1, nodes=(0,)),
    SlurmCase(
        "step-refused",
        batch_script("srun --mem=20G true"),
        "supported",
        ranks=(0,),
        node=0,
        variant="on Slurm, in a batch script",
        nodes=(0,),
    ),
)
