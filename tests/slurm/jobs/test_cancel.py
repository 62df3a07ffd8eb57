"""Cancelling: whatever the run is doing, however often it is asked for, and by whomever."""

from __future__ import annotations

import json
import os
import random
import signal
import time

import pytest
from driver import wait_for
from slurm.login import PATIENT, UP, Login

LATER = {"sbatch_options": {"begin": "now+1hour"}}
DEAF = "trap '' TERM; " + UP + "; while :; do sleep 0.1; done"
CANCELLED = ("CANCELLED", "CANCELLED_BY_USER", 130)


def verdict(status) -> tuple[str, str | None, int]:
    return status["state"], status["reason"], status["exit_code"]


@pytest.mark.exhaustive(unless=["now0"])
@pytest.mark.parametrize("now", [[], ["--now"]])
def test_a_run_that_waits(login: Login, now: list[str]) -> None:
    run = login.begin(slurm=LATER)
    status = login.status(run)
    assert (status["state"], status["reason"]) == ("QUEUED", None)
    assert "until the time that it may begin" in status["message"]
    login.ok("cancel", run, *now)
    assert verdict(login.ended(run)) == CANCELLED
    assert login.state(login.native(run)) == "CANCELLED"


def test_a_run_that_waits_for_the_nodes_of_another(login: Login) -> None:
    first = login.running(world="4x1", slurm={"exclusive": True})
    second = login.begin(world="4x1", slurm={"exclusive": True})
    wait_for(lambda: "for free nodes" in login.status(second)["message"])
    assert login.status(second)["state"] == "QUEUED"
    login.ok("cancel", second)
    assert verdict(login.ended(second)) == CANCELLED
    assert login.status(first)["state"] == "RUNNING"
    login.ok("cancel", first)
    assert verdict(login.ended(first)) == CANCELLED


def test_ctrl_c_cancels_a_run_that_waits(login: Login) -> None:
    following = login.start("run", login.job(PATIENT, slurm=LATER))
    wait_for(lambda: login.runs() and login.left(login.runs()[0], "../handle.json"))
    following.send_signal(signal.SIGINT)
    assert following.wait(20) == 130
    following.communicate()
    assert verdict(login.ended(login.latest())) == CANCELLED


@pytest.mark.exhaustive
def test_at_any_moment_of_the_start(login: Login) -> None:
    """From the submission to the first lines of the ranks, a cancel is a cancel."""
    dice = random.Random(417)
    name = login.job(PATIENT)
    runs = []
    for _ in range(5):
        run = login.submit(name)
        time.sleep(dice.uniform(0, 0.6))
        login.ok("cancel", run)
        runs.append(run)
    assert [verdict(login.ended(run)) for run in runs] == [CANCELLED] * 5


def test_by_hand_beside_us(login: Login) -> None:
    """scancel on a run that waits, that runs, and whose ranks hear nothing. Of a step it is a plain kill."""
    waiting = login.begin(slurm=LATER)
    runs = [login.running(PATIENT), login.running(DEAF, grace=1)]
    step = login.running(PATIENT)
    login.cluster.command("scancel", *(login.native(run) for run in (waiting, *runs)))
    login.cluster.command("scancel", login.native(step) + ".0")
    for run in (waiting, *runs):
        status = login.ended(run)
        assert verdict(status) == CANCELLED
        assert "by root" in status["message"], status
    status = login.ended(step)
    assert status["state"] == "FAILED" and status["reason"] in ("SIGNAL", "NODE_FAILURE"), "whichever was killed first"


def times(login: Login, run: str, node: int, event: str) -> list[float]:
    return [each["time"] for each in login.events(run, node) if each["event"] == event]


def agents_ended(login: Login, run: str, nodes: int) -> float:
    """When the last agent had nothing left of its ranks, nor of what these had started."""
    return max(
        json.loads(login.read(run, "attempt-0", "exit", "node-%04d.json" % node))["ended"] for node in range(nodes)
    )


def test_ranks_that_ignore_term_are_gone_within_the_grace(login: Login) -> None:
    run = login.running("(trap '' TERM; setsid sleep 119 &) ; " + DEAF, "2x2", grace=1)
    login.ok("cancel", run)
    assert wait_for(lambda: not login.alive(run), 30, raises=False), login.alive(run)
    assert verdict(login.ended(run)) == CANCELLED
    asked = [times(login, run, node, "stopping")[0] for node in range(2)]
    for node in range(2):
        exits = times(login, run, node, "rank_exited")
        assert len(exits) == 2 and min(exits) - asked[node] > 0.9
    assert agents_ended(login, run, 2) - min(asked) < 3


def test_the_first_failure_ends_all_within_three_seconds(login: Login) -> None:
    """Also where the others ignore TERM: the grace is theirs, and no more."""
    fail = "if [ $RANK = 5 ]; then until test -e outputs/go; do sleep 0.02; done; exit 9; fi; "
    run = login.running(UP + "; " + fail + "(setsid sleep 118 &); " + DEAF, "3x2", grace=1)
    open(login.path(run, "outputs", "go"), "w").close()
    assert wait_for(lambda: not login.alive(run), 30, raises=False), login.alive(run)
    status = login.ended(run)
    exits = [each for node in range(3) for each in times(login, run, node, "rank_exited")]
    assert len(exits) == 6 and agents_ended(login, run, 3) - min(exits) < 3
    assert verdict(status) == ("FAILED", "EXIT_CODE", 9)
    assert (status["failure"]["rank"], status["failure"]["node_rank"]) == (5, 2)


@pytest.mark.exhaustive
def test_a_cancel_that_no_controller_hears_changes_nothing_and_is_asked_again(login: Login) -> None:
    run = login.running(PATIENT)
    login.cluster.stop_controller(signal.SIGTERM)
    result = login("cancel", run)
    assert result.code != 0 and "Slurm cannot be reached now" in result.err and "try again" in result.err
    status = login.status(run)
    assert status["state"] == "RUNNING" and "Slurm does not answer" in status["message"]
    assert login.alive(run) and not os.path.exists(login.path(run, "cancel.json"))
    login.cluster.start_controller()
    login.ok("cancel", run)
    assert verdict(login.ended(run)) == CANCELLED
