"""Nodes on which nothing of ours can start: the run ends at once, and says which node it was and what it lacks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from driver import wait_for
from slurm.by_hand import mounted
from slurm.login import PATIENCE, Login

FIRST, SECOND = "node1", "node2"
pytestmark = pytest.mark.timeout(240)


def told(login: Login, run: str) -> tuple[str, str]:
    """Why a run failed of which no rank was started. Where a controller did not hear that the job has ended, it is told
    again after a minute."""
    status = login.ended(run, 2 * PATIENCE)
    assert status["state"] == "FAILED" and not login.left(run, "up-0-0")
    return status["reason"], status["message"]


UNSEEN = (
    "no rank was started: node2 does not see the run directory, or may not write there: is its file system mounted?"
)


def test_a_node_without_the_file_system(login: Login) -> None:
    with mounted(login, SECOND, login.cluster.shared, "-t", "tmpfs", "none"):
        reason, message = told(login, login.begin())
    assert reason == "ENVIRONMENT" and message.startswith(UNSEEN), message


def test_a_first_node_without_the_file_system(login: Login) -> None:
    with mounted(login, FIRST, login.cluster.shared, "-t", "tmpfs", "none"):
        reason, message = told(login, login.begin())
    assert reason == "ENVIRONMENT"
    assert message.startswith("Slurm: the first of node[1-2] could not open the run's batch.log"), message


def test_a_node_that_may_only_read(login: Login) -> None:
    shared = login.cluster.shared
    with mounted(login, SECOND, shared, "--bind", shared):
        subprocess.check_call(login.cluster.on_node(SECOND, ["mount", "-o", "remount,bind,ro", shared]))
        reason, message = told(login, login.begin())
    assert reason == "ENVIRONMENT" and message.startswith(UNSEEN), message


def test_a_node_without_the_interpreter(login: Login) -> None:
    python = os.path.realpath(sys.executable)
    with mounted(login, SECOND, python, "--bind", "/dev/null"):
        reason, message = told(login, login.begin())
    assert reason == "ENVIRONMENT"
    assert message.startswith("no rank was started: node2 cannot start the agent: "), message
    assert "Permission denied" in message


def test_a_node_with_an_interpreter_that_fails(login: Login) -> None:
    python, broken = os.path.realpath(sys.executable), os.path.join(login.cluster.shared, "broken")
    with open(broken, "w") as file:
        file.write("#!/bin/sh\necho Fatal Python error >&2\nexit 3\n")
    os.chmod(broken, 0o755)
    with mounted(login, SECOND, python, "--bind", broken):
        found = told(login, login.begin())
    assert found == ("EXIT_CODE", "no rank was started: the agent on node2 ended with code 3: Fatal Python error")


@pytest.mark.exhaustive
def test_a_node_that_cannot_be_reached_once_the_job_has_begun(login: Login) -> None:
    """Slurm waits for it, as long as SlurmdTimeout says, and knows no more then than that the job failed."""
    here, go = (os.path.join(login.project, name) for name in ("here", "go"))
    run = login.begin(setup=["touch %s; until test -e %s; do sleep 0.1; done" % (here, go)], slurm={"requeue": False})
    wait_for(lambda: os.path.exists(here), PATIENCE)
    login.cluster.cut_network(SECOND)
    open(go, "w").close()
    why = (
        "srun could not start anything on node2: Communication connection failure (to exclude it: slurm.exclude: node2)"
    )
    wait_for(lambda: login.status(run)["message"].startswith(why + ". Slurm: it is ending"), PATIENCE)
    login("wait", run)
    assert told(login, run) == ("NODE_FAILURE", "no rank was started: " + why)
