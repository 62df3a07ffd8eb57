"""exec, shell and nodes on this machine; what is the same on every compute stands in the conformance suite."""

from __future__ import annotations

import os
import socket

import pytest
from driver import Cli, wait_for
from terminal import Terminal


def running(cli: Cli, world: str = "2x1") -> str:
    run = cli.submit("-w", world, "--", "sh", "-c", "touch outputs/up-$RANK; sleep 120")
    nodes, _, each = world.partition("x")
    wait_for(lambda: len(os.listdir(cli.path(run, "outputs"))) == int(nodes) * int(each) and cli.has_begun(run))
    return run


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["exec"], "no command after --\n  → worldsize exec -- nvidia-smi"),
        (["exec", "nvidia-smi"], "no command after --\n  → worldsize exec -- nvidia-smi"),
        (["exec", "nvidia-smi", "topo"], "a command goes after --\n  → worldsize exec -- nvidia-smi topo"),
        (["exec", "--"], "no command after --"),
        (["exec", "20260101", "-w", "2", "--", "ls"], "both a run (20260101) and nodes without a run"),
        (["exec", "--node", "1", "-w", "2", "--", "ls"], "--node: --node chooses among the nodes of a run"),
        (["exec", "-w", "0", "--", "ls"], "-w: 0 is not a number of nodes"),
        (["exec", "-w", "2", "--all", "--", "ls"], "both -w and --all set the number of nodes"),
        (["exec", "20260101", "--all", "--", "ls"], "both a run (20260101) and nodes without a run"),
        (["exec", "-w", "2x2", "--", "ls"], "'2x2' is not a number"),
        (["exec", "--compute", "lob", "--", "ls"], "there is no compute 'lob'"),
        (["exec", "-o", "json", "--fold", "off", "--", "ls"], "-o json and --fold cannot be combined"),
        (["exec", "nope", "--", "ls"], "there is no run yet"),
        (["shell", "--", "ls"], "shell takes no command after --"),
        (["nodes", "--compute", "lob"], "there is no compute 'lob'"),
    ],
)
def test_mistakes_are_said_and_nothing_is_started(cli: Cli, words: list[str], said: str) -> None:
    result = cli(*words)
    assert (result.code, result.out) == (2, "") and said in result.err, result


def test_nodes_of_a_run_are_named_by_number_or_host(cli: Cli) -> None:
    run = running(cli, "3x1")
    assert cli.ok("exec", "--node", "2,0", "--", "sh", "-c", "echo $WORLDSIZE_NODE_RANK").lines == ["0: 0", "2: 2"]
    wrong = cli("exec", "--node", "3", "--", "true")
    assert wrong.code == 2 and "there is no node 3" in wrong.err and "nodes are 0-2" in wrong.err
    wrong = cli("shell", run, "--node", "0-1")
    assert wrong.code == 2 and "a shell is on one node" in wrong.err
    cli.ok("cancel", run, "--now")


def test_the_latest_running_run_is_meant(cli: Cli) -> None:
    first = running(cli)
    cli.run("--", "true")
    (line,) = cli.ok("exec", "--node", "0", "--", "sh", "-c", "echo $WORLDSIZE_RUN_DIR").lines
    assert line.endswith(first)
    cli.ok("cancel", first, "--now")


def test_elements_of_an_array_are_reached_as_runs_are(cli: Cli) -> None:
    array = cli.submit("-w", "1x1", "--count", "2", "--", "sh", "-c", "touch outputs/up; sleep 120")
    wait_for(lambda: all(os.path.exists(cli.path(array, "%s_%d" % (array, i), "outputs", "up")) for i in (0, 1)))
    (line,) = cli.ok("exec", array + "_1", "--", "sh", "-c", "echo $WORLDSIZE_RUN_DIR").lines
    assert line.endswith(array + "_1")
    (line,) = cli.ok("exec", "--", "sh", "-c", "echo $WORLDSIZE_RUN_DIR").lines
    assert line.endswith((array + "_0", array + "_1"))
    whole = cli("exec", array, "--", "true")
    assert whole.code == 2 and "is an array of 2 runs" in whole.err
    cli.ok("cancel", array, "--now")


def test_a_command_that_leaves_something_in_the_background_ends(cli: Cli) -> None:
    """As on a cluster, where a step's processes end with it."""
    result = cli("exec", "-w", "1", "--", "sh", "-c", "sleep 4720 & echo started")
    assert (result.code, result.lines) == (0, ["0: started"])


def test_whoever_reads_no_more_ends_it(cli: Cli) -> None:
    process = cli.start("exec", "-w", "2", "--", "sh", "-c", "while :; do echo more; done")
    assert process.stdout is not None and process.stderr is not None
    assert b"more" in process.stdout.read(100)
    process.stdout.close()
    assert process.wait(20) == 141
    process.stderr.close()


def test_a_shell_in_the_runs_code(cli: Cli) -> None:
    cli.write("train.py", "")
    run = running(cli)
    with Terminal(cli, "shell", "--node", "1") as screen:
        screen.until("node 1 (%s) of %s" % (socket.gethostname(), run))
        screen.type("echo at:$(pwd):$WORLDSIZE_NODE_RANK:[$RANK]:$(ls train.py)\n")
        screen.until("at:%s:1:[]:train.py" % os.path.realpath(cli.path(run, "code")))
        screen.type("sleep 4721\n")
        wait_for(lambda: "sleep 4721 " in cli.processes().values())
        screen.type("\x03")
        screen.until("^C")
        wait_for(lambda: "sleep 4721 " not in cli.processes().values())
        screen.type("exit 7\n")
        assert screen.end() == 7
    assert cli.status(run)["state"] == "RUNNING"
    cli.ok("cancel", run, "--now")


def test_a_shell_wants_a_terminal(cli: Cli) -> None:
    run = running(cli)
    result = cli("shell")
    assert result.code == 2 and "a shell needs a terminal" in result.err and "worldsize exec %s --" % run in result.err
    cli.ok("cancel", run, "--now")


def test_this_machine(cli: Cli) -> None:
    (row,) = cli.json("nodes")
    assert row["name"] == socket.gethostname() and row["cpus"] == len(os.sched_getaffinity(0))
    assert row["state"] == "up" and row["cpus_free"] is None and row["memory_free"] <= row["memory"]
    text = cli.ok("nodes", "--compute", "local").lines[1]
    assert text.startswith(socket.gethostname()) and "GiB" in text
