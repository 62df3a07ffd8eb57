"""Faults at random on a real cluster: whatever dies, stops or goes away at whatever moment of a run, its state is true
and final in the end, nothing of it lives on, and its allocation is released.

WORLDSIZE_FAULT_SEED=N repeats a round with another seed, WORLDSIZE_SLURM_ROUNDS=N takes more or fewer of them.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from driver import wait_for

from slurm import processes
from slurm.cluster import Cluster
from slurm.login import Login, is_of

pytestmark = pytest.mark.chaos

ROUNDS = int(os.environ.get("WORLDSIZE_SLURM_ROUNDS", "5"))
SEED = int(os.environ.get("WORLDSIZE_FAULT_SEED", "20261121"))
RUNS = 10
LASTS = 7.0
SILENCE = 3.0
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)
FORGETFUL = 6.0
"""A slurmctld that is killed forgets what it was told in its last seconds, whole jobs too: it is not killed sooner."""

RANK = "A=${SLURM_RESTART_COUNT:-0}; touch outputs/up-$RANK-$A; sleep %g; touch outputs/done-$RANK-$A" % LASTS
ON_PROCESSES = ("rank", "rank", "agent", "agent", "srun", "batch shell")
ON_THE_CLUSTER = ("slurmd", "slurmctld", "power", "network", "down", "requeue", "scancel")

Undo = tuple[float, Callable[[], object]]


def kind_of(process: processes.Process) -> str:
    words = " ".join(process.argv)
    if "agent.pyz" in words:
        return "agent" if process.name.startswith("python") else "srun"
    return "srun" if process.name == "srun" else "batch shell" if "slurm_script" in words else "rank"


def go_on(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGCONT)
    except ProcessLookupError:
        pass


def strike_a_process(run: str, kind: str, dice: random.Random, undo: list[Undo]) -> str:
    of_run = [each for each in processes.living() if is_of(each, run) or "/runs/" + run in " ".join(each.argv)]
    victims = sorted(each.pid for each in of_run if kind_of(each) == kind and each.name != "slurmstepd")
    if not victims:
        return "no %s any more" % kind
    number, pid = dice.choice(SIGNALS), dice.choice(victims)
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return "no %s any more" % kind
    if number == signal.SIGSTOP:
        undo.append((time.monotonic() + dice.uniform(0.5, 3 * SILENCE), lambda: go_on(pid)))
    return "%s of a %s" % (number.name, kind)


def strike_the_cluster(login: Login, run: str, kind: str, dice: random.Random, undo: list[Undo]) -> str:
    cluster, node = login.cluster, dice.choice(login.cluster.node_names)
    soon = time.monotonic() + dice.uniform(0.5, 4)
    if cluster.power(node) is None:
        return "%s was off already" % node
    if kind == "slurmd":
        number = dice.choice((signal.SIGKILL, signal.SIGSTOP))
        cluster.kill_slurmd(node, number)
        undo.append((soon, lambda: cluster.power(node) and cluster.restart_slurmd(node, 0)))
        return "%s of slurmd on %s" % (number.name, node)
    if kind == "slurmctld":
        number = dice.choice((signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM))
        cluster.stop_controller(number)
        undo.append((soon, cluster.start_controller))
        return "%s of slurmctld" % number.name
    if kind == "power":
        cluster.power_off(node)
        undo.append((soon, lambda: cluster.power_on(node, 0)))
    elif kind == "network":
        cluster.cut_network(node)
        undo.append((soon + dice.choice((0, 15)), lambda: cluster.restore_network(node)))
    elif kind == "down":
        cluster.command("scontrol", "update", "NodeName=" + node, "State=DOWN", "Reason=fault", check=False)
        undo.append((soon, lambda: resume(cluster, node)))
    else:
        words = ["scancel"] if kind == "scancel" else ["scontrol", "requeue"]
        cluster.command(*words, login.native(run), check=False)
        return "%s of the job" % kind
    return "%s of %s" % (kind, node)


def resume(cluster: Cluster, node: str) -> None:
    cluster.command("scontrol", "update", "NodeName=" + node, "State=RESUME", check=False)


def undo_due(undo: list[Undo], everything: bool = False) -> None:
    for entry in sorted(undo, key=lambda each: each[0]):
        if everything or entry[0] <= time.monotonic():
            undo.remove(entry)
            entry[1]()


def is_true(login: Login, run: str, status: Mapping[str, Any]) -> bool:
    """A success is one: every rank of one attempt has come to its end."""
    done = [all(login.left(run, "done-%d-%d" % (rank, attempt)) for rank in (0, 1)) for attempt in range(9)]
    return status["state"] != "SUCCEEDED" or any(done)


def ended(login: Login, run: str) -> Mapping[str, Any]:
    """A job that Slurm could not launch it puts back, and holds it until somebody releases or cancels it."""

    def settled() -> bool:
        status = login.status(run)
        if status["waiting"] and status["waiting"]["stuck"]:
            login.ok("cancel", run)
        return status["exit_code"] is not None

    wait_for(settled, 120, raises=False)
    return login.ended(run, 1)


@pytest.mark.exhaustive
@pytest.mark.timeout(400)
@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_round(login: Login, number: int) -> None:
    dice = random.Random(SEED * 1000 + number)
    undo: list[Undo] = []
    told: dict[str, list[str]] = {}
    for _ in range(RUNS):
        asked = dice.choice(({}, {"requeue": True}, {"requeue": False}))
        told[login.prepared(SILENCE, RANK, "2x1", slurm=asked, grace=2)] = []
    login.release(*told)
    began = time.monotonic()
    kinds = [dice.choice(ON_PROCESSES + ON_THE_CLUSTER) for _ in range(RUNS)]
    moments = sorted(dice.uniform(0, LASTS + 1) for _ in range(RUNS))
    for run, kind, moment in zip(dice.sample(list(told), RUNS), kinds, moments, strict=True):
        moment = max(moment, FORGETFUL) if kind == "slurmctld" else moment
        while time.monotonic() - began < moment:
            undo_due(undo)
            time.sleep(0.05)
        if kind in ON_PROCESSES:
            told[run].append(strike_a_process(run, kind, dice, undo))
        else:
            told[run].append(strike_the_cluster(login, run, kind, dice, undo))
    while undo:
        undo_due(undo)
        time.sleep(0.05)
    print("\n".join("%s: %s" % item for item in told.items()))
    for run in told:
        status = ended(login, run)
        said = (told[run], [status[key] for key in ("state", "reason", "exit_code", "message")], login.path(run))
        assert status["state"] in ("SUCCEEDED", "FAILED", "CANCELLED"), said
        assert is_true(login, run, status), said
    wait_for(lambda: not login.cluster.command("squeue", "--noheader").strip(), 60)
