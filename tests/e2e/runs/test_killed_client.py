"""A command line that is killed in the very moment of starting a run: the run can be seen, followed and cancelled."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from driver import Cli, wait_for

STARTER = """
import json, os, signal, sys, threading, time
from worldsize.compute.local.compute import LocalCompute

how, cancelled = sys.argv[1:3]
del sys.argv[1:3]
if how == "spawned":
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
submit = LocalCompute.submit

def submit_and_die(self, submissions):
    if cancelled == "cancelled":
        with open(submissions[0].paths.cancel, "w") as file:
            file.write("{}")
    submit(self, submissions)
    os.kill(os.getpid(), signal.SIGKILL)

LocalCompute.submit = submit_and_die
from worldsize.cli.main import run
run()
"""
"""The command line, which dies between the start of its run's conductor and its own next step. Somebody may have asked
to cancel right before: the command line, which would have told the conductor, is no more."""


def die(cli: Cli, how: str, cancelled: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", STARTER, how, cancelled, "run", *words],
        cwd=cli.project,
        env=cli.environ,
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done
    (run,) = [name for name in os.listdir(os.path.join(cli.home, "runs")) if name[0] == "2"]
    return run


@pytest.mark.parametrize("how", ["forked", "spawned"])
def test_its_run_goes_on_and_can_be_cancelled(cli: Cli, how: str) -> None:
    run = die(cli, how, "", "-w", "2x1", "--", "sh", "-c", "touch outputs/up-$RANK; exec sleep 60")
    wait_for(lambda: all(os.path.exists(cli.path(run, "outputs", "up-%d" % rank)) for rank in (0, 1)))
    assert os.path.islink(cli.path(run, "preparing")), "it was killed before it could take that away"
    wait_for(lambda: cli.status(run)["state"] == "RUNNING")
    cli.ok("cancel", run)
    assert cli("wait", run, "--timeout", "60").code == 130
    assert cli.status(run)["state"] == "CANCELLED"
    wait_for(lambda: not cli.processes())


@pytest.mark.parametrize("how", ["forked", "spawned"])
def test_its_run_ends_as_any_other(cli: Cli, how: str) -> None:
    run = die(cli, how, "", "--", "sh", "-c", "sleep 0.3; exit 3")
    assert cli("wait", run, "--timeout", "60").code == 3
    assert (cli.status(run)["state"], cli.status(run)["reason"]) == ("FAILED", "EXIT_CODE")


@pytest.mark.parametrize("how", ["forked", "spawned"])
def test_a_cancel_that_nobody_passes_on_is_seen_by_the_conductor(cli: Cli, how: str) -> None:
    run = die(cli, how, "cancelled", "--", "sh", "-c", "touch outputs/up; exec sleep 60")
    assert cli("wait", run, "--timeout", "60").code == 130
    assert cli.status(run)["state"] == "CANCELLED"
    wait_for(lambda: not cli.processes())
    assert not os.path.exists(cli.path(run, "outputs", "up"))


def test_a_conductor_that_comes_up_after_its_run_was_given_up_starts_nothing(cli: Cli) -> None:
    """The starter dies, the conductor is held up, and whoever looks says LOST: that stays the truth."""
    run = cli.run("--", "sh", "-c", "touch outputs/up")
    for name in ("handle.json", "outputs/up"):
        os.unlink(cli.path(run, name))
    before = cli.read(run, "result.json")
    program = [sys.executable, cli.path(run, "agent.pyz"), cli.path(run), "--conduct"]
    assert subprocess.run(program, cwd="/", env=cli.environ, check=False).returncode in (0, 130)
    assert cli.read(run, "result.json") == before
    assert not os.path.exists(cli.path(run, "outputs", "up"))


def test_the_handle_is_the_same_whoever_wrote_it(cli: Cli) -> None:
    run = cli.submit("--", "sleep", "60")
    handle = json.loads(cli.read(run, "handle.json"))
    with open("/proc/%d/stat" % handle["pid"], encoding="ascii") as file:
        started = int(file.read().rpartition(") ")[2].split()[19])
    assert handle["type"] == "local" and handle["run_id"] == run and handle["start_time"] == started
    cli.ok("cancel", run)
    assert cli("wait", run).code == 130
    assert json.loads(cli.read(run, "handle.json")) == handle


@pytest.mark.exhaustive
def test_killed_at_any_moment_around_the_start(cli: Cli) -> None:
    """Whenever it dies: a run that is there ends, or can be cancelled; and nothing is left."""
    dice = random.Random(20261121)
    began = time.monotonic()
    cli.run("-q", "--", "true")
    whole = time.monotonic() - began
    for _ in range(12):
        process = cli.start("run", "-q", "--", "sleep", "60")
        time.sleep(dice.uniform(0.3 * whole, 1.2 * whole))
        process.kill()
        process.communicate()
    for run in os.listdir(os.path.join(cli.home, "runs")):
        if run[0] == "2" and cli.status(run)["state"] != "SUCCEEDED":
            cli("cancel", run)
            assert cli("wait", run, "--timeout", "60").code in (1, 130)
            assert cli.status(run)["state"] in ("CANCELLED", "LOST")
    wait_for(lambda: not cli.processes())
