"""Commands beside ranks through nothing but the run's directory: real agents, node programs, and clients that die.

What a node hears of its client and tells it, and after how long: tests/unit/wings/node_commands; what a client hears of
its nodes: tests/unit/wings/node_commands/test_node_commands_by_files.py.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pytest
from local_runs import LocalRun, LocalRuns, until
from pythons import supported

from worldsize.compute.capabilities import NodeCommand, NodeCommandStream, NodeEvent, NodeStartStatus
from worldsize.errors import SubmitRejected
from worldsize.plan.run_paths import NODE_PROGRAM_FILE
from worldsize.wings.node_commands.by_files import FileCommandStream, execute_on_run
from worldsize.wings.node_commands.by_process import command_spec
from worldsize.wings.node_commands.files import write_command_directory
from worldsize_conformance.driver import sleepers

SUPPORTED = supported()
_CLIENT = """
import json, sys, time
from worldsize.compute.capabilities import NodeCommand
from worldsize.wings.node_commands.by_files import execute_on_run
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
paths = RunPaths(sys.argv[1])
plan = Plan.from_json(open(paths.plan).read())
stream = execute_on_run(NodeCommand(tuple(sys.argv[2:]), tuple(range(len(plan.nodes))), paths.code, plan, paths), str)
while (said := stream.read_events(0.1)) is not None:
    for each in said:
        print(each.node, each.kind, flush=True)
"""


class Told(NamedTuple):
    """What was told until the end: output and code of each node, and the notes."""

    out: dict[int, bytearray]
    err: dict[int, bytearray]
    codes: dict[int, int]
    notes: list[bytes]


@pytest.fixture
def runs(tmp_path) -> Iterator[LocalRuns]:
    made = LocalRuns(str(tmp_path / "home"))
    yield made
    made.destroy()


def running(runs: LocalRuns, nodes: int = 2, script: str = "echo up; sleep 60 & wait", **fields) -> LocalRun:
    run = runs.sh(script, nodes=nodes, errands=True, **fields)
    run.said("up")
    return run


def begun(run: LocalRun, *argv: str, nodes: Sequence[int] | None = None) -> NodeCommandStream:
    numbers = tuple(range(len(run.plan.nodes)) if nodes is None else nodes)
    return execute_on_run(NodeCommand(argv, numbers, run.paths.code, run.plan, run.paths), str)


def told(stream: NodeCommandStream, before: Sequence[NodeEvent] = ()) -> Told:
    found = Told({}, {}, {}, [])
    said: list[NodeEvent] | None = list(before)
    deadline = time.monotonic() + 30
    while said is not None:
        assert time.monotonic() < deadline
        for each in said:
            if each.kind == "note":
                found.notes.append(each.data)
            elif each.kind == "end":
                found.codes[each.node] = each.code
            elif each.kind != "up":
                texts = found.out if each.kind == "out" else found.err
                texts.setdefault(each.node, bytearray()).extend(each.data)
        said = stream.read_events(0.1)
    stream.close()
    return found


def until_said(stream: NodeCommandStream, kind: str, nodes: int) -> list[NodeEvent]:
    heard: list[NodeEvent] = []
    until(lambda: heard.extend(stream.read_events(0.1) or []) or sum(each.kind == kind for each in heard) >= nodes)
    return heard


def test_it_is_executed_on_each_node_in_the_ranks_environment(runs: LocalRuns) -> None:
    run = running(runs, nodes=3, environment={"OF_JOB": "a b"})
    script = "echo $WORLDSIZE_NODE_RANK of $WORLDSIZE_NODE_COUNT, $OF_JOB, [$RANK], $PWD; echo trouble >&2; exit 3"
    found = told(begun(run, "sh", "-c", script, nodes=[0, 2]))
    assert found.codes == {0: 3, 2: 3} and found.notes == []
    assert found.out == {node: b"%d of 3, a b, [], %s\n" % (node, run.paths.code.encode()) for node in (0, 2)}
    assert found.err == dict.fromkeys((0, 2), b"trouble\n")
    assert os.listdir(run.paths.errands) == []
    assert not run.over() and run.log(0) == "up\n"


def test_stop_leaves_a_grace_and_close_none(runs: LocalRuns) -> None:
    run = running(runs)
    stream = begun(run, "sh", "-c", "trap 'echo told; exit 3' TERM; echo up; sleep 4731 & wait")
    before = until_said(stream, "out", 2)
    stream.stop()
    found = told(stream, before)
    assert found.codes == {0: 3, 1: 3} and found.out == dict.fromkeys((0, 1), b"up\ntold\n")
    until(lambda: not sleepers("4731"))

    deaf = begun(run, "sh", "-c", "trap '' TERM; echo up; sleep 4732; sleep 4732")
    until_said(deaf, "out", 2)
    deaf.close()
    until(lambda: not sleepers("4732"))
    deaf.close()
    assert deaf.read_events(0) in ([], None)
    assert not run.over()


def test_what_cannot_be_executed_is_told(runs: LocalRuns) -> None:
    found = told(begun(running(runs), "no-such-command"))
    assert found.codes == {0: 127, 1: 127}
    assert found.err == dict.fromkeys((0, 1), b"worldsize: no-such-command: command not found\n")


def test_a_client_that_dies_takes_its_command_along_and_leaves_nothing(runs: LocalRuns, tmp_path) -> None:
    run = running(runs)
    argv = [sys.executable, "-c", _CLIENT, run.paths.root, "sleep", "4733"]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    client = subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE)
    until(lambda: len(sleepers("4733")) == 2)
    client.kill()
    client.communicate()
    until(lambda: not sleepers("4733"), 30)
    until(lambda: os.listdir(run.paths.errands) == [], 30)
    assert not run.over()


def test_it_ends_with_the_run_and_holds_nothing_up(runs: LocalRuns) -> None:
    run = running(runs, script="echo up; while ! [ -e outputs/go ]; do sleep 0.1; done", grace=5.0)
    stream = begun(run, "sh", "-c", "echo up; sleep 4734")
    before = until_said(stream, "out", 2)
    open(os.path.join(run.paths.outputs, "go"), "w").close()
    assert run.ended()["state"] == "SUCCEEDED"
    assert not sleepers("4734")
    assert told(stream, before).codes == {0: 137, 1: 137}


def test_it_ends_with_its_agent(runs: LocalRuns) -> None:
    run = running(runs)
    stream = begun(run, "sh", "-c", "echo up; sleep 4735")
    until_said(stream, "out", 2)
    os.kill(run.agent(1), signal.SIGKILL)
    until(lambda: not sleepers("4735"), 30)
    stream.close()


def test_it_is_no_rank(runs: LocalRuns) -> None:
    """Neither its end nor its code is the run's; a rank that ends beside it is noticed."""
    run = running(runs, script="echo up; until [ -e outputs/go ]; do sleep 0.1; done; exit 7")
    assert told(begun(run, "sh", "-c", "exit 9")).codes == {0: 9, 1: 9}
    seconds = "4737.%d" % os.getpid()  # all processes of the machine are looked at
    stream = begun(run, "sleep", seconds)
    until(lambda: len(sleepers(seconds)) == 2)
    open(os.path.join(run.paths.outputs, "go"), "w").close()
    ended = run.ended()
    assert (ended["state"], ended["exit_code"]) == ("FAILED", 7)
    stream.close()
    codes = {run.event(node, "rank_exited")["code"] for node in (0, 1)}
    assert 7 in codes and codes <= {7, 143}


def test_nodes_that_cannot_begin_it_say_why(runs: LocalRuns, monkeypatch) -> None:
    run = running(runs)
    monkeypatch.setattr("worldsize.wings.node_commands.files.program", lambda: "import sys\nsys.exit('broken here')\n")
    stream = begun(run, "true")
    with pytest.raises(SubmitRejected, match=r"nodes 0,1: broken here"):
        told(stream)
    stream.close()
    assert os.listdir(run.paths.errands) == []


@pytest.mark.parametrize("python", SUPPORTED, ids=os.path.basename)
def test_a_node_of_its_own_on_every_python(python: str, tmp_path) -> None:
    """Its exit code is the command's, for whoever started it."""
    directory = str(tmp_path / "command")
    write_command_directory(
        directory,
        command_spec(NodeCommand(("sh", "-c", "echo $WORLDSIZE_NODE_RANK; pwd; exit 5"), (0,), str(tmp_path))),
    )
    stream = FileCommandStream(directory, [0], NodeStartStatus)
    node = subprocess.Popen([python, "-I", "-S", os.path.join(directory, NODE_PROGRAM_FILE), directory, "0"])
    found = told(stream)
    assert found.codes == {0: 5} and found.out == {0: b"0\n%s\n" % os.fsencode(tmp_path)}
    assert node.wait(10) == 5
    assert os.listdir(tmp_path) == []


def test_plans_without_errands_do_not_look(runs: LocalRuns) -> None:
    """The run that follows, which has some, has looked by then."""
    run = runs.sh("echo up; sleep 60")
    run.said("up")
    following = running(runs, nodes=1)
    until(lambda: os.path.exists(following.paths.errands))
    assert not os.path.exists(run.paths.errands)
    assert len(os.listdir("/proc/%d/task" % run.agent(0))) == 1
