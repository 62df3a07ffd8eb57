"""Inside an allocation that somebody has already: runs are steps of it, beside each other, and leave it as it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from driver import wait_for
from slurm.by_hand import Shell, mounted, run_of
from slurm.login import PATIENT, UP, Login

GO = UP + "; until test -e outputs/go; do sleep 0.05; done; hostname"


@pytest.fixture
def shell(login: Login) -> Iterator[Shell]:
    shell = Shell(login, "-N2", "--cpus-per-task=4")
    yield shell
    shell.close()


def jobs(login: Login) -> list[str]:
    return login.cluster.command("squeue", "--noheader", "--format=%A").split()


def test_a_run_is_a_step_of_it(login: Login, shell: Shell) -> None:
    out = shell.worldsize("run -w 2x2 -- sh -c 'echo $SLURM_JOB_ID $(hostname) $SLURM_PROCID'")
    said = [line.partition(": ")[2] for line in out.splitlines() if line[:1].isdigit()]
    nodes = shell("scontrol show hostnames").split()
    assert sorted(said) == ["%s %s %d" % (shell.job, nodes[rank // 2], rank) for rank in range(4)], out
    assert "inside the allocation that this shell belongs to: job %s" % shell.job in out
    assert jobs(login) == [shell.job], "no other job came of it"
    assert login.status()["state"] == "SUCCEEDED"
    assert "exit 7" not in shell.worldsize("run -w 1x2 -- sh -c 'exit $((RANK * 7))'")
    status = login.status()
    assert (status["state"], status["exit_code"], status["failure"]["rank"]) == ("FAILED", 7, 1)


def test_two_runs_beside_each_other_and_one_is_cancelled(login: Login, shell: Shell) -> None:
    for name in ("one", "two"):
        shell.worldsize("submit --name %s %s -w 2x2" % (name, login.job(GO, "2x2")))
    one, two = run_of(login, "one"), run_of(login, "two")
    login.wait_up(one, "2x2")
    login.wait_up(two, "2x2")
    assert login.status(one)["state"] == login.status(two)["state"] == "RUNNING"
    assert "cancelling" in shell.worldsize("cancel " + one)
    login("wait", one)
    assert login.status(one)["state"] == "CANCELLED", (login.status(one), login.read(one, "batch.log"))
    assert wait_for(lambda: not login.ours(one), 3, raises=False), login.ours(one)
    assert wait_for(lambda: not login.alive(one), 30, raises=False), login.alive(one)  # srun takes its time
    assert login.status(two)["state"] == "RUNNING"
    open(login.path(two, "outputs", "go"), "w").close()
    login("wait", two)
    assert login.status(two)["state"] == "SUCCEEDED"
    assert wait_for(lambda: not login.ours(two), 3, raises=False), login.ours(two)
    assert wait_for(lambda: not login.alive(two), 30, raises=False), login.alive(two)
    assert login.state(shell.job) == "RUNNING", "the allocation is the user's"


def test_a_step_whose_node_takes_no_signal_yet_is_told_again(login: Login, shell: Shell) -> None:
    """slurmd refuses them until it has reported the step's start; ranks have their grace all the same."""
    told = "trap 'touch outputs/told-$RANK; exit 1' TERM; %s; while :; do sleep 0.1; done" % UP
    shell.worldsize("submit --name one " + login.job(told, "2x2"))
    run = run_of(login, "one")
    login.wait_up(run, "2x2")
    said = "scancel: error: Kill job error on job step id %s: Job step not running" % shell.job
    script = 'mkdir refused 2>/dev/null || exec $REAL "$@"; echo "%s" >&2; exit 1' % said
    login.ok("cancel", run, **login.shadow("scancel", script))
    assert os.path.isdir(os.path.join(login.project, "refused"))
    login("wait", run, "--timeout", "30")
    assert login.status(run)["state"] == "CANCELLED"
    assert all(os.path.exists(login.path(run, "outputs", "told-%d" % rank)) for rank in range(4))


def test_several_runs_start_at_once_which_is_said(login: Login, shell: Shell) -> None:
    """Each waits for both: had they come in turn, the first would never end."""
    met = "cd %s; touch up-$WORLDSIZE_ARRAY_INDEX; until test -e up-0 -a -e up-1; do sleep 0.05; done" % login.project
    out = shell.worldsize("run %s --count 2 --at-once 1" % login.job(met, "1x1"))
    assert "inside an allocation all 2 runs start at once" in out
    assert login.status()["state"] == "SUCCEEDED", out
    assert jobs(login) == [shell.job]


def test_more_nodes_than_it_has_are_refused(login: Login, shell: Shell) -> None:
    before = login.runs()
    out = shell.worldsize("run -w 3x1 -- true; echo code $?")
    assert "3 nodes are asked for, and this allocation (job %s) has 2" % shell.job in out and "code 2" in out
    assert login.runs() == before


def test_an_allocation_that_ends_takes_its_runs_along(login: Login, shell: Shell) -> None:
    shell.worldsize("submit --name last " + login.job(PATIENT))
    run = run_of(login, "last")
    login.wait_up(run)
    login.cluster.command("scancel", shell.job)
    login("wait", run, "--timeout", "30")
    assert login.status(run)["state"] in ("CANCELLED", "FAILED")
    assert wait_for(lambda: not login.alive(run), 30, raises=False), login.alive(run)


def test_a_run_that_cannot_begin_says_why(login: Login, shell: Shell) -> None:
    """There is no job of its own that could be asked."""
    shell.worldsize("run " + login.job("true", setup=["echo first", "echo missing >&2; false"]))
    status = login.status()
    assert (status["state"], status["reason"]) == ("FAILED", "ENVIRONMENT"), status
    assert status["message"] == "setup failed with code 1: echo missing >&2; false"
    with mounted(login, "node2", login.cluster.shared, "-t", "tmpfs", "none"):
        shell.worldsize("run " + login.job("true"))
    status = login.status()
    assert (status["state"], status["reason"]) == ("FAILED", "ENVIRONMENT"), status
    assert status["message"].startswith("no rank was started: node2 does not see the run directory")


def test_an_allocation_that_slurm_ends_says_why(login: Login, shell: Shell) -> None:
    shell.worldsize("submit --name last " + login.job(PATIENT))
    run = run_of(login, "last")
    login.wait_up(run)
    login.cluster.command("scontrol", "update", "NodeName=node2", "State=DOWN", "Reason=test")
    login("wait", run, "--timeout", "30")
    status = login.status(run)
    assert (status["state"], status["reason"]) == ("FAILED", "NODE_FAILURE"), status
    assert status["message"].endswith("failed (NODE_FAIL); this ended its allocation (job %s)" % shell.job)
    assert wait_for(lambda: not login.alive(run), 30, raises=False), login.alive(run)


def test_it_says_so_where_a_node_hears_of_it_too_late_to_write_it_down(login: Login, shell: Shell) -> None:
    """Its agent has ended by then: the one on the other node told it to."""
    shell.worldsize("submit --name last " + login.job(PATIENT))
    run = run_of(login, "last")
    login.wait_up(run)
    login.cluster.kill_slurmd("node1", signal.SIGSTOP)
    login.cluster.command("scontrol", "update", "NodeName=node2", "State=DOWN", "Reason=test")
    login("wait", run, "--timeout", "30")
    status = login.status(run)
    login.cluster.restart_slurmd("node1", 0)
    assert "DUE TO NODE FAILURE" not in login.read(run, "batch.log")
    assert (status["state"], status["reason"]) == ("FAILED", "NODE_FAILURE"), status
    assert wait_for(lambda: not login.alive(run), 30, raises=False), login.alive(run)


def test_what_an_ended_allocation_left_in_a_shell_is_not_believed(login: Login) -> None:
    shell = Shell(login, "-N2")
    lines = [line for line in shell("env").splitlines() if line.startswith(("SLURM_", "SBATCH_"))]
    left = dict(line.partition("=")[::2] for line in lines)
    shell.close()
    wait_for(lambda: login.state(shell.job) not in ("RUNNING", "COMPLETING"))
    assert left["SLURM_JOB_ID"] == shell.job
    done = login("run", login.job("echo $SLURM_JOB_ID", "3x1"), **left)
    assert done.code == 0, done
    assert login.native(login.latest()) == done.out.split()[-1] != shell.job


def test_from_a_batch_script_of_ones_own(login: Login) -> None:
    """Its runs are seen, and can be cancelled, from the login node too."""
    worldsize = "%s -m worldsize" % sys.executable
    script = "#!/bin/bash\ncd %s\n%s run %s; echo first $?; %s run %s -w 2x2; echo second $?\n" % (
        login.project,
        worldsize,
        login.job("hostname", name="short.yml"),
        worldsize,
        login.job(GO, "2x2"),
    )
    out = os.path.join(login.root, "out")
    argv = ["sbatch", "--parsable", "-N2", "-c4", "--output=" + out]
    done = subprocess.run(argv, input=script, env=login.environ, capture_output=True, text=True, check=True)
    job = done.stdout.strip()
    wait_for(lambda: len(login.runs()) == 2, 30)
    first, second = sorted(login.runs())
    login.wait_up(second, "2x2")
    assert login.status(first)["state"] == "SUCCEEDED"
    assert login.status(second)["state"] == "RUNNING"
    login.ok("cancel", second)
    login("wait", second, "--timeout", "30")
    assert login.status(second)["state"] == "CANCELLED"
    wait_for(lambda: login.state(job) == "COMPLETED", 20)
    with open(out) as file:
        text = file.read()
    assert "first 0" in text and "second 130" in text
