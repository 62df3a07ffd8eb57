"""Time and memory: whoever ends a run for them, it says so."""

from __future__ import annotations

import re
import time

import pytest
from driver import wait_for
from slurm.by_hand import script, submit
from slurm.cluster import Cluster, Flavour
from slurm.fixtures import skip_without_cluster
from slurm.login import PATIENCE, PATIENT, UP, Login, login_of

SAVES = "trap 'touch outputs/saved-$RANK; exit 0' TERM; " + UP + "; while :; do sleep 0.1; done"
TOLD = "trap 'touch outputs/told-$RANK' USR1; " + UP + "; while :; do sleep 0.1; done"
LEAVES = "trap 'touch outputs/told-$RANK; exit 0' USR1; " + UP + "; while :; do sleep 0.1; done"


def test_slurms_time_limit(login: Login) -> None:
    """Slurm looks after limits every 30 s only: all that waits for it waits in this one test. It sends a signal before
    the end up to a minute early, which could be before a rank expects it: limits get near once all ranks are up."""
    saving = login.begin(SAVES, slurm={"time": "00:03:00", "signal": 30}, grace=20)
    by_hand = submit(login, script(login, login.job(SAVES, slurm={"time": 3, "signal": 30})))
    told = login.begin(TOLD, "2x2", slurm={"time": 5, "signal": "USR1@90"}, grace=1)
    leaving = login.begin(LEAVES, slurm={"time": 3, "signal": "USR1@30"})
    for run, world in ((saving, "2x1"), (by_hand, "2x1"), (told, "2x2"), (leaving, "2x1")):
        login.wait_up(run, world)
    plain = login.running(PATIENT, slurm={"time": 1})
    login.update(login.native(plain), EndTime=time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() + 2)))
    for run, minutes in ((saving, "1"), (by_hand, "1"), (told, "2"), (leaving, "1")):
        login.update(login.native(run), TimeLimit=minutes)

    status = login.ended(plain)
    assert (status["state"], status["reason"]) == ("FAILED", "TIME_LIMIT")
    assert "TIMEOUT" in status["message"] and "limit of 1 min" in status["message"]
    assert login.state(login.native(plain)) == "TIMEOUT"

    for run in (saving, by_hand):
        status = login.ended(run)
        assert (status["state"], status["reason"]) == ("FAILED", "TIME_LIMIT"), status
        assert "limit of 1 min" in status["message"]
        assert login.left(run, "saved-0") and login.left(run, "saved-1")
        assert login.state(login.native(run)) == "FAILED", "they left before Slurm ended it"

    wait_for(lambda: all(login.left(told, "told-%d" % rank) for rank in range(4)), PATIENCE)
    assert login.ended(leaving)["state"] == "SUCCEEDED"
    assert login.left(leaving, "told-0") and login.left(leaving, "told-1")
    assert login.status(told)["state"] == "RUNNING", "agents and ranks live on after USR1"
    login.ok("cancel", told)
    assert login.ended(told)["state"] == "CANCELLED"


@pytest.mark.exhaustive
def test_our_limit_comes_first(login: Login) -> None:
    """Slurm gets a later one where the job names none, and the partition's own is none of ours."""
    runs = [
        login.begin("trap '' TERM; " + PATIENT, "2x2", limits={"timeout": 2}, grace=1),
        login.begin(limits={"timeout": 2}, slurm={"partition": "short"}),
    ]
    assert "00:02:00" in login.cluster.command("scontrol", "show", "job", login.native(runs[0]))
    for run in runs:
        status = login.ended(run)
        assert (status["state"], status["reason"], status["exit_code"]) == ("FAILED", "TIME_LIMIT", 124)
        assert "2 s (limits.timeout)" in status["message"]


EAT = """import os, time
open("outputs/up-%s-0" % os.environ["RANK"], "w").close()
while not os.path.exists("outputs/go"):
    time.sleep(0.02)
data = bytearray(400 << 20) if os.environ["RANK"] == "1" else None
time.sleep(60)
"""


def eating(login: Login, before: str, **keys: object) -> str:
    login.write("eat.py", EAT)
    run = login.running(before + "exec python eat.py", code=".", **keys)
    open(login.path(run, "outputs", "go"), "w").close()
    return run


def test_a_rank_out_of_memory_by_a_limit_of_its_own(login: Login) -> None:
    """Nothing but `ulimit` can keep a rank from memory here, where control groups are not used."""
    status = login.ended(eating(login, "ulimit -v 300000; "))
    assert (status["state"], status["reason"], status["failure"]["rank"]) == ("FAILED", "OUT_OF_MEMORY", 1)
    assert "MemoryError" in status["message"]


def test_a_step_that_slurm_kills_for_its_memory() -> None:
    """Slurm counts it itself (OverMemoryKill): it kills whole steps at once, agents too, and calls the job FAILED."""
    skip_without_cluster(accounting=False)
    with Cluster.start(Flavour(accounting=False, memory=True)) as cluster, login_of(cluster) as login:
        run = eating(login, "", slurm={"mem": "100M"})
        status = login.ended(run)
        assert login.state(login.native(run)) == "FAILED"
    assert (status["state"], status["reason"]) == ("FAILED", "OUT_OF_MEMORY"), status
    assert re.search("exceeded (job )?memory limit", status["message"], re.IGNORECASE), status  # whichever came first
