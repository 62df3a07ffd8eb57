"""Tests of commands on the nodes of a run, on any compute: `exec`, and the compute's list of its nodes.

A test executes several commands on one run, since on a cluster it takes seconds to start and end a run.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from typing import cast

from worldsize.compute.capabilities import HasNodes
from worldsize_conformance.driver import heard, unfolded, wait_for
from worldsize_conformance.place import Place


def running(place: Place, world: str, **keys: object) -> str:
    """Submit a job of the size `world` that sleeps for two minutes, and wait until all its ranks have started. Return
    the run's id. `keys` are further keys of the job."""
    place.job("touch outputs/up-$RANK; sleep 120", world, **keys)
    run = place.submit("job.yml")
    nodes, _, each = world.partition("x")
    ranks = ["up-%d" % rank for rank in range(int(nodes) * int(each))]
    wait_for(lambda: place.has_outputs(run, *ranks), place.target.patience)
    return run


def wait_for_nodes(name: str, nodes: int) -> str:
    """Return a line of shell, for a command of `exec`, that waits until `nodes` nodes have reached it, so that they
    print at the same time. `name` is a folder in the run's outputs that the nodes use for this."""
    here = '"$WORLDSIZE_RUN_DIR"/outputs/' + name
    script = "mkdir -p %s; touch %s/$WORLDSIZE_NODE_RANK; until [ $(ls %s | wc -l) = %d ]; do sleep 0.05; done; "
    return script % (here, here, here, nodes)


def test_lines_are_folded_and_codes_gathered(place: Place) -> None:
    place.require("exec")
    run = running(place, "3x1")
    script = "echo same; echo node $WORLDSIZE_NODE_RANK; echo trouble >&2; exit $((WORLDSIZE_NODE_RANK * 2))"
    result = place("exec", "--", "sh", "-c", wait_for_nodes("all", 3) + script)
    assert result.code == 4
    assert unfolded(result.lines) == ["node 0", "node 1", "node 2", "same", "same", "same"]
    assert {"0: node 0", "1: node 1", "2: node 2"} <= set(result.lines)
    which, *lines = result.err.splitlines()
    assert run in which, "exec without RUN does not name its run"
    *trouble, one, other = (line.partition(" (")[0] for line in lines)
    assert (unfolded(trouble), one, other) == (["trouble"] * 3, "exit code 2 on node 1", "exit code 4 on node 2")
    result = place("exec", run, "--node", "0-1", "--", "sh", "-c", wait_for_nodes("two", 2) + script)
    assert (result.code, unfolded(result.lines)) == (2, ["node 0", "node 1", "same", "same"])

    result = place("exec", "-o", "json", "--", "sh", "-c", "printf 'é\\n'; printf x >&2; kill -9 $$")
    rows = json.loads(result.out)
    assert result.code == 137 and all(row.pop("host") for row in rows)
    assert rows == [{"node": node, "code": 137, "stdout": "é\n", "stderr": "x"} for node in range(3)]

    result = place("exec", "--node", "0,2", "--", "no-such-command", "--version")
    assert (result.code, result.out) == (127, "")
    assert unfolded(result.err.splitlines()).count("worldsize: no-such-command: command not found") == 2
    place.ok("cancel", run, "--now")


def test_it_has_the_ranks_environment_and_place_but_is_no_rank(place: Place) -> None:
    """Check that a command of `exec` has the ranks' environment and directory, that its words arrive as typed, and that
    its output is complete."""
    place.require("exec")
    variables = {"OF_JOB": "a b,c=d"}
    run = running(place, "2x2", setup=["export FROM_SETUP=1"], environment_variables=variables)
    names = "$FROM_SETUP|$OF_JOB|$RANK|$LOCAL_RANK|$MASTER_PORT|$WORLDSIZE_RANK|$WORLDSIZE_NODE_COUNT"
    lines = place.ok("exec", "--", "sh", "-c", 'echo "%s|$WORLDSIZE_RUN_DIR|$(pwd)"' % names).lines
    root = place.node_path(place.path(run))
    assert unfolded(lines) == ["1|a b,c=d|||||2|%s|%s" % (root, os.path.join(root, "code"))] * 2

    words = ["a b", "", "$HOME", "'\"", "new\nline", "*", "-w", "ü", "--"]
    script = "import sys; print(ascii(sys.argv[1:]))"
    assert unfolded(place.ok("exec", "--", "python3", "-c", script, *words).lines) == [ascii(words)] * 2

    script = "import sys\nfor i in range(20000): print('line', i)\nsys.stdout.write('x' * 100000)"
    lines = ["line %d" % i for i in range(20000)] + ["x" * 100000]
    assert place.ok("exec", "--node", "1", "--", "python3", "-c", script).lines == ["1: " + line for line in lines]
    rows = json.loads(place.ok("exec", "-o", "json", "--", "python3", "-c", script).out)
    assert [row["stdout"].split("\n") for row in rows] == [lines] * 2
    place.ok("cancel", run, "--now")


def test_however_it_ends_it_ends_everywhere_and_the_run_goes_on(place: Place) -> None:
    place.require("exec")
    run = running(place, "2x1")
    late, asked_for, ignored, alone = ("%d" % random.randrange(10**6, 10**9) for _ in range(4))  # unused elsewhere

    result = place("exec", "--timeout", "8", "--", "sh", "-c", "echo up; exec sleep " + late)
    assert result.code == 124 and unfolded(result.lines) == ["up", "up"] and "after 8 s" in result.err
    wait_for(lambda: not place.sleepers(late))

    asked = start_sleepers(place, asked_for, "trap 'echo told; exit 3' TERM; echo up; sleep %s & wait" % asked_for)
    asked.send_signal(signal.SIGINT)
    out, _ = asked.communicate(timeout=20)
    assert (asked.returncode, unfolded(out.decode().splitlines())) == (130, ["told", "told", "up", "up"])
    wait_for(lambda: not place.sleepers(asked_for))

    eager = "for i in 1 2 3 4 5 6 7 8; do while :; do sleep %s; done & done"  # each killed one is replaced
    deaf = start_sleepers(place, ignored, "trap '' TERM; %s; wait" % (eager % ignored), 16)
    deaf.send_signal(signal.SIGINT)
    heard(deaf.stderr, "again: at once")
    deaf.send_signal(signal.SIGINT)
    deaf.communicate(timeout=4)  # less than the grace of five seconds
    assert deaf.returncode == 130
    wait_for(lambda: not place.sleepers(ignored))

    killed = start_sleepers(place, alone, "sleep " + alone)
    killed.kill()
    killed.communicate()
    wait_for(lambda: not place.sleepers(alone))

    assert place.status(run)["state"] == "RUNNING"
    place.ok("cancel", run, "--now")


def start_sleepers(place: Place, seconds: str, script: str, sleeping: int = 2) -> subprocess.Popen[bytes]:
    """Start the shell command `script` on the two nodes of the running run with `exec`. Return its client process once
    `sleeping` of the processes on the nodes execute `sleep SECONDS`."""
    process = place.start("exec", "--", "sh", "-c", script)
    wait_for(lambda: place.sleepers(seconds) == sleeping)
    return process


def test_nodes_of_its_own(place: Place) -> None:
    place.require("exec")
    result = place("exec", "-w", "2", "--", "sh", "-c", "echo $WORLDSIZE_NODE_RANK of $WORLDSIZE_NODE_COUNT; pwd")
    assert result.code == 0, result
    assert {"0: 0 of 2", "1: 1 of 2"} <= set(result.lines), result
    assert unfolded(result.lines) == sorted(["0 of 2", "1 of 2", *[place.node_path(place.project)] * 2]), result
    one = place("exec", "--compute", place.target.name, "--", "sh", "-c", "exit 9")
    assert one.code == 9, one


def test_every_node_of_the_compute(place: Place) -> None:
    place.require("exec", "nodes")
    place.require_every_node()
    names = sorted(row["name"] for row in place.json("nodes") if row["usable"])
    rows = json.loads(place("exec", "--all", "-o", "json", "--", "sh", "-c", "echo $WORLDSIZE_NODE_COUNT").out)
    assert sorted(row["host"] for row in rows) == names
    assert {(row["code"], row["stdout"]) for row in rows} == {(0, "%d\n" % len(names))}


def test_without_a_run_it_is_for_every_node_or_says_so(place: Place) -> None:
    place.require("exec")
    if "everywhere" in place.capabilities:
        place.require_every_node()
    result = place("exec", "--", "echo", "here")
    if "everywhere" in place.capabilities:
        usable = [row for row in place.json("nodes") if row["usable"]]
        assert (result.code, unfolded(result.lines)) == (0, ["here"] * len(usable)), result
    else:
        assert (result.code, result.out) == (2, "") and "no run is running" in result.err


def test_only_a_running_run_can_be_reached(place: Place) -> None:
    place.require("exec")
    none = place("exec", "--node", "0", "--", "true")
    assert (none.code, none.out) == (2, "") and "no run is running" in none.err
    place.job("true")
    run = place.run("job.yml")
    for words in (["exec", run, "--", "true"], ["shell", run]):
        result = place(*words)
        assert result.code == 2 and "needs a running run, and %s is SUCCEEDED" % run in result.err


def test_the_compute_tells_of_its_nodes(place: Place) -> None:
    place.require("nodes")
    rows = place.json("nodes")
    usable = [row for row in rows if row["usable"]]
    assert usable and all(row["cpus"] > 0 and row["memory"] > 0 for row in usable)
    assert place.target.nodes is not None or usable == rows
    assert len({row["name"] for row in rows}) == len(rows)
    table = place.ok("nodes").lines
    groups = cast(HasNodes, place.compute()).group_noun.upper()
    assert table[0].split() == ["NODES", "STATE", "GPUS", "CPUS", "MEMORY", groups]
    assert len(table) == 2 or (place.target.nodes is not None and 2 < len(table) <= len(rows) + 1), table
    assert len(place.ok("nodes", "--all").lines) == len(rows) + 1
