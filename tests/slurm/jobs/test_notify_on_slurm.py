"""The command of `notify` on a cluster, where `srun` kills what is left once one task has failed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from driver import wait_for
from slurm.login import PATIENCE, UP, Login

TELL = "cat > ../telling; sleep 1; cat ../telling >> ../told"
"""It takes longer than `srun` needs to see that a task has failed."""


def told(login: Login, run: str) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in login.read(run, "told").splitlines()]
    except FileNotFoundError:
        return []


def told_events(login: Login, run: str, number: int) -> list[tuple[str, str, int]]:
    """Of what the command has been told, the events, once there are so many."""
    wait_for(lambda: len(told(login, run)) >= number, PATIENCE, raises=False)
    return [(each["event"], each["state"], each["attempt"]) for each in told(login, run)]


def test_a_failure_on_another_node_is_told_before_the_step_ends(login: Login) -> None:
    run = login.begin(UP + "; sleep 2; exit $((RANK * 3))", notify=TELL)
    status = login.ended(run)
    assert (status["reason"], status["exit_code"]) == ("EXIT_CODE", 3)
    events = [("start", "RUNNING", 0), ("failure", "FAILED", 0), ("end", "FAILED", 0)]
    assert told_events(login, run, 3) == events
    assert {each["job"] for each in told(login, run)} == {login.native(run)}


@pytest.mark.exhaustive
def test_a_run_that_slurm_starts_again_is_told_of_as_attempts(login: Login) -> None:
    script = UP + "; [ ${SLURM_RESTART_COUNT:-0} = 1 ] || sleep 120"
    run = login.begin(script, notify=TELL, slurm={"requeue": True})
    login.wait_up(run)
    assert told_events(login, run, 1) == [("start", "RUNNING", 0)]
    login.cluster.command("scontrol", "requeue", login.native(run))
    assert login.ended(run)["state"] == "SUCCEEDED"
    assert told_events(login, run, 4) == [
        ("start", "RUNNING", 0),
        ("end", "CANCELLED", 0),
        ("start", "RUNNING", 1),
        ("end", "SUCCEEDED", 1),
    ]
    assert [each.get("may_restart") for each in told(login, run)] == [None, True, None, False]
