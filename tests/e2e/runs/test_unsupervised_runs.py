"""A local run whose supervisors are gone, or whose directory is: whoever looks ends what is left of it."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import time

import pytest
from driver import Cli, heard, wait_for

from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.preparation_mark import is_being_prepared, mark_preparing, unmark_preparing

DEAF = (
    "trap '' TERM; touch outputs/up-$RANK; "
    "setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & while :; do sleep 0.1; done"
)
POLITE = "touch outputs/up-$RANK; exec sleep 60"


def start(cli: Cli, script: str, *words: str) -> str:
    run = cli.submit("-w", "2x1", *words, "--", "sh", "-c", script)
    wait_for(lambda: all(os.path.exists(cli.path(run, "outputs", "up-%d" % rank)) for rank in (0, 1)))
    return run


def supervisors(cli: Cli, run: str) -> list[int]:
    """The conductor and its agents."""
    found = [json.loads(cli.read(run, "handle.json"))["pid"]]
    for node in (0, 1):
        found.append(json.loads(cli.read(run, "attempt-0", "events", "node-%04d.jsonl" % node).splitlines()[0])["pid"])
    return found


def kill_at_once(pids: list[int]) -> None:
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


def delete_under_agents(cli: Cli, run: str) -> None:
    """At one stroke: what they write meanwhile is in nobody's way."""
    deleted = os.path.join(cli.root, "deleted")
    os.rename(cli.path(run), deleted)
    shutil.rmtree(deleted, ignore_errors=True)


@pytest.mark.parametrize("verb", ["status", "wait", "list", "cancel"])
def test_who_looks_at_a_run_without_supervisors_ends_what_is_left(cli: Cli, verb: str) -> None:
    run = start(cli, DEAF, "--set", "grace=60")
    kill_at_once(supervisors(cli, run))
    assert cli.processes(), "the ranks and what they started"
    began = time.monotonic()
    cli(verb, *([] if verb == "list" else [run]))
    assert time.monotonic() - began < 40
    assert not cli.processes()
    status = cli.status(run)
    assert (status["state"], status["exit_code"]) == ("LOST", 1)
    assert "conductor" in status["message"]


def test_the_follower_ends_what_is_left(cli: Cli) -> None:
    process = cli.start("run", "-w", "2x1", "--set", "grace=60", "--", "sh", "-c", DEAF)
    wait_for(lambda: os.path.isdir(os.path.join(cli.home, "runs")) and cli.json("list"))
    run = cli.latest()
    wait_for(lambda: all(os.path.exists(cli.path(run, "outputs", "up-%d" % rank)) for rank in (0, 1)))
    wait_for(lambda: os.path.exists(cli.path(run, "handle.json")))
    kill_at_once(supervisors(cli, run))
    assert process.wait(timeout=20) == 1
    process.communicate()
    wait_for(lambda: not cli.processes())  # what finds out of what a node is made may be about to end


def test_an_agent_that_is_left_tells_and_what_the_others_left_is_ended(cli: Cli) -> None:
    run = start(cli, DEAF, "--set", "grace=0.5")
    conductor, _, agent = supervisors(cli, run)
    kill_at_once([conductor, agent])
    assert cli("wait", run).code == 1
    assert not cli.processes()
    assert (cli.status(run)["state"], cli.status(run)["reason"]) == ("FAILED", "NODE_FAILURE")


@pytest.mark.parametrize(
    ("lives", "recorded", "expected"),
    [
        (True, True, ("PREPARING", "")),
        (False, True, ("LOST", "it was interrupted while it was being submitted")),
        (False, False, ("LOST", "it was interrupted while it was being prepared")),
    ],
)
def test_who_prepares_a_run_decides_and_not_its_age(
    cli: Cli, lives: bool, recorded: bool, expected: tuple[str, str]
) -> None:
    run = cli.run("--", "true")
    for name in ["handle.json", "result.json", *([] if recorded else ["record.json"])]:
        os.unlink(cli.path(run, name))
    for name in ("exit", "events"):
        shutil.rmtree(cli.path(run, "attempt-0", name))
        os.mkdir(cli.path(run, "attempt-0", name))
    with open("/proc/self/stat") as file:
        started = int(file.read().rpartition(") ")[2].split()[19])
    os.symlink("%d:%d:%s" % (os.getpid(), started + (not lives), os.uname().nodename), cli.path(run, "preparing"))
    long_ago = time.time() - 10_000
    for folder in ("", "attempt-0/exit"):
        os.utime(cli.path(run, folder), (long_ago, long_ago))
    status = cli.status(run)
    assert (status["state"], status["message"]) == expected


@pytest.mark.parametrize(("age", "state"), [(-60.0, "PREPARING"), (6.0, "LOST")])
def test_a_run_directory_whose_maker_did_not_live_to_mark_it(cli: Cli, age: float, state: str) -> None:
    run = cli.run("--", "true")
    for name in os.listdir(cli.path(run)):
        if os.path.isfile(cli.path(run, name)):
            os.unlink(cli.path(run, name))
    made = time.time() - age
    os.utime(cli.path(run), (made, made))
    assert cli.status(run)["state"] == state


def test_a_mark_where_there_are_no_links(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    run = cli.run("--", "true")
    paths = RunPaths(cli.path(run))
    monkeypatch.setattr(os, "symlink", refuse)
    mark_preparing(paths)
    assert os.path.isfile(paths.preparing) and is_being_prepared(paths)
    assert os.stat(paths.preparing).st_mode & 0o077 == 0
    unmark_preparing(paths)
    assert not os.path.lexists(paths.preparing)


def test_agents_that_end_a_run_by_themselves_are_left_to_it(cli: Cli) -> None:
    """The conductor alone is killed: its agents give the grace, and say what happened."""
    saves = "until test -e outputs/go; do sleep 0.05; done; touch outputs/saved-$RANK; exit 0"
    script = "trap '%s' TERM; touch outputs/up-$RANK; while :; do sleep 0.05; done" % saves
    run = start(cli, script, "--set", "grace=60")
    os.kill(supervisors(cli, run)[0], signal.SIGKILL)
    assert not cli.status(run)["exit_code"]
    open(cli.path(run, "outputs", "go"), "w").close()
    assert cli("wait", run).code == 1
    assert cli.status(run)["reason"] == "NODE_FAILURE"
    assert all(os.path.exists(cli.path(run, "outputs", "saved-%d" % rank)) for rank in (0, 1))


def test_cancel_ends_what_is_left_of_a_final_run_and_says_so(cli: Cli) -> None:
    run = cli.run("--", "sh", "-c", "exit 3", code=3)
    left = subprocess.Popen(
        ["sleep", "60"], env={**cli.environ, "WORLDSIZE_RUN_ID": run, "WORLDSIZE_RUN_DIR": cli.path(run)}
    )
    result = cli.ok("cancel", run)
    assert "is already FAILED" in result.err and "ended 1 process that was left of it" in result.err
    assert left.wait(timeout=15) == -signal.SIGKILL
    assert cli.ok("cancel", run).err == "%s is already FAILED\n" % run


@pytest.mark.parametrize("damaged", ["handle.json", "plan.json"])
def test_cancel_of_a_damaged_run_ends_what_bears_its_mark(cli: Cli, damaged: str) -> None:
    run = cli.run("--", "true")
    os.unlink(cli.path(run, "result.json"))
    with open(cli.path(run, damaged), "w") as file:
        file.write('{"pid": ')
    left = subprocess.Popen(
        ["sleep", "60"], env={**cli.environ, "WORLDSIZE_RUN_ID": run, "WORLDSIZE_RUN_DIR": cli.path(run)}
    )
    assert "is already LOST; ended 1 process that was left of it" in cli.ok("cancel", run).err
    assert left.wait(timeout=15) == -signal.SIGKILL


def test_the_directory_is_deleted_under_a_followed_run(cli: Cli) -> None:
    process = cli.start("run", "-w", "2x1", "--set", "grace=0.5", "--", "sh", "-c", DEAF)
    heard(process.stderr, "2 nodes")  # from now on it follows
    run = cli.latest()
    wait_for(lambda: all(os.path.exists(cli.path(run, "outputs", "up-%d" % rank)) for rank in (0, 1)))
    delete_under_agents(cli, run)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1 and b"its run directory was deleted" in err
    assert not cli.processes()


def test_agents_notice_a_deleted_directory(cli: Cli) -> None:
    run = start(cli, POLITE)
    delete_under_agents(cli, run)
    wait_for(lambda: not cli.processes(), 15)


def test_status_of_a_run_whose_directory_was_deleted(cli: Cli) -> None:
    other = cli.run("--", "true")
    run = cli.run("--", "true")
    shutil.rmtree(cli.path(run))
    result = cli("status", run)
    assert result.code == 2 and run in result.err
    assert other not in result.err and "did you mean" not in result.err
    where = os.path.join(cli.root, "elsewhere", run)
    os.symlink(where, cli.path(run))
    result = cli("status", run)
    assert result.code == 2 and "its directory was deleted" in result.err and where in result.err


def test_cancel_of_a_run_whose_directory_was_deleted(cli: Cli) -> None:
    run = start(cli, DEAF, "--set", "grace=60")
    delete_under_agents(cli, run)
    result = cli("cancel", run)
    assert result.code == 0 and "left of it" in result.err, result
    wait_for(lambda: not cli.processes(), 20)
