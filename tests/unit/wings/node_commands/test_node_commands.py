"""Commands on nodes: what is told of many, how srun is asked, how the process that reaches them is followed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from clocks import Clock
from slurm_fakes import FakeSlurm

from worldsize.agent.posix.processes import HELPER_OF
from worldsize.compute.capabilities import ComputeNode, NodeCommand, NodeEvent
from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected, UsageError
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.rank_environment import scrub, scrub_rules
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.node_commands import slurm
from worldsize.wings.node_commands.agent import node_environment
from worldsize.wings.node_commands.by_process import (
    _OVERTIME,
    GRACE,
    OutputRules,
    ProcessCommandStream,
    command_spec,
    program,
)
from worldsize.wings.node_commands.list_nodes import _row as row_of
from worldsize.wings.node_commands.list_nodes import group_equal_nodes
from worldsize.wings.node_commands.node_output import CollectedResults, FoldedResults
from worldsize.wings.node_commands.running_runs import choose_nodes


def plan(nodes: int = 3, **changes: object) -> Plan:
    made = Plan("20260101-000000-000aaa", "x", "lab", 0.0, 0, node_major_layout(nodes, 2), ("true",), {})
    return made._replace(**changes)


def test_the_program_of_nodes_needs_nothing_but_python() -> None:
    code = "import sys; sys.path[:] = [each for each in sys.path if 'worldsize' not in each]; exec(sys.argv[1], {})"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code, program()], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "worldsize.common" not in program()


# what many nodes say


def told(said: Sequence[NodeEvent], nodes: int = 3, fold: str | None = None) -> FoldedResults:
    clock = iter(range(10_000))
    gathered = FoldedResults(range(nodes), fold, lambda: next(clock) * 1e-6)
    for each in said:
        gathered.take([each])
    gathered.finish()
    return gathered


def ends(nodes: int, code: int = 0) -> list[NodeEvent]:
    return [NodeEvent(node, "end", code=code) for node in range(nodes)]


def test_equal_output_is_folded_and_streams_stay_apart(capsys: pytest.CaptureFixture[str]) -> None:
    said = [NodeEvent(node, "out", b"one\ntwo %d\nthr" % (node == 2)) for node in range(3)]
    said += [NodeEvent(node, "err", b"bad\n") for node in range(3)] + [
        NodeEvent(node, "out", b"ee") for node in range(3)
    ]
    told([*said, *ends(3)])
    shown = capsys.readouterr()
    assert shown.out.splitlines() == ["×3: one", "0: two 0", "1: two 0", "2: two 1", "×3: three"]
    assert shown.err == "×3: bad\n"


def test_some_of_many_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    told([*(NodeEvent(node, "out", b"a\n" if node != 3 else b"b\n") for node in range(5)), *ends(5)], 5)
    assert capsys.readouterr().out.splitlines() == ["[0-2,4] ×4: a", "3: b"]


def test_numbers_fold_and_nothing_folds_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    said = [*(NodeEvent(node, "out", b"took %d s\n" % (node + 3)) for node in range(3)), *ends(3)]
    told(said, fold="numbers")
    assert capsys.readouterr().out == "×3: took {3..5} s\n"
    told(said, fold="off")
    assert capsys.readouterr().out == "0: took 3 s\n1: took 4 s\n2: took 5 s\n"


def test_what_could_drive_a_terminal_is_taken_out(capsys: pytest.CaptureFixture[str]) -> None:
    told([NodeEvent(0, "out", b"10 %\r20 %\rdone \x1b]0;title\x07\xff\n"), *ends(1)], 1)
    assert capsys.readouterr().out == "0: done \ufffd\n"


def test_codes_and_lost_nodes() -> None:
    hosts = [NodeEvent(node, "up", b"n%d" % node) for node in range(4)]
    gathered = told([*hosts, NodeEvent(0, "end", code=3), NodeEvent(2, "end", code=3), NodeEvent(1, "end", code=0)], 4)
    assert gathered.code == 3
    assert gathered.failures() == ["exit code 3 on nodes 0,2 (n[0,2])", "lost before it ended: node 3 (n3)"]
    assert gathered.progress() == "runs on node 3 (n3)"
    gathered.take([NodeEvent(3, "lost", b"its agent has ended")])
    assert gathered.failures()[1:] == ["lost before it ended: node 3 (n3): its agent has ended"]
    assert told(ends(2), 2).failures() == [] and told(ends(2), 2).code == 0
    nobody = told([], 2)
    assert (nobody.code, nobody.failures(), nobody.progress()) == (1, [], "has not begun")


def test_everything_as_data(capsys: pytest.CaptureFixture[str]) -> None:
    gathered = CollectedResults(range(2))
    gathered.take(
        [
            NodeEvent(0, "up", b"a"),
            NodeEvent(0, "out", b"1\n"),
            NodeEvent(0, "err", b"\xff"),
            NodeEvent(0, "end", code=2),
        ]
    )
    gathered.finish()
    assert json.loads(capsys.readouterr().out) == [
        {"node": 0, "host": "a", "code": 2, "stdout": "1\n", "stderr": "\ufffd"},
        {"node": 1, "host": None, "code": None, "stdout": "", "stderr": ""},
    ]


def test_nodes_are_chosen_by_number_or_name() -> None:
    hosts = {0: "n1", 1: "n2", 2: "gpu-3"}
    assert choose_nodes([], plan(), hosts) == (0, 1, 2)
    assert choose_nodes(["2", "0-1"], plan(), hosts) == (0, 1, 2)
    assert choose_nodes(["gpu-3,0"], plan(), hosts) == (0, 2)
    for word, message in (("7", "no node 7"), ("gpu-4", "not a node"), ("", "not a node")):
        with pytest.raises(UsageError, match=message):
            choose_nodes([word], plan(), hosts)


# tables and words


def test_nodes_that_are_alike_share_a_row() -> None:
    one = ComputeNode("n1", "idle", "", True, "", ("main", "low"), ("main",), 8, 8, 16000, 16000, "h100", 4, 4)
    nodes = [
        one,
        one._replace(name="n2", memory_free=8000),
        one._replace(name="n3", state="mixed", cpus_free=2, gpus_free=1),
        one._replace(name="n4", state="mixed", cpus_free=6, gpus_free=1),
        one._replace(name="n5", state="down", note="not responding", usable=False, gpus_free=0, cpus_free=0),
    ]
    assert [row_of(each) for each in group_equal_nodes(nodes)] == [
        ["n[1-2]", "idle", "4 free of 4 × h100", "8 free of 8", "7.8-15.6 free of 15.6 GiB", "main*,low"],
        ["n[3-4]", "mixed", "1 free of 4 × h100", "2-6 free of 8", "15.6 free of 15.6 GiB", "main*,low"],
        ["n5", "down (not responding)", "0 free of 4 × h100", "0 free of 8", "15.6 free of 15.6 GiB", "main*,low"],
    ]
    assert row_of([ComputeNode("vm", "up", cpus=2, gpus=0)]) == ["vm", "up", "none", "2", "", ""]
    assert row_of([ComputeNode("vm", "up", gpus=1)]) == ["vm", "up", "1 × GPU", "", "", ""]


# the environment on a node


def test_the_program_that_travels_scrubs_as_we_do() -> None:
    environ = {
        "PATH": "/bin",
        "RANK": "1",
        "SLURM_PROCID": "3",
        "SLURM_JOB_ID": "7",
        "TORCHELASTIC_X": "",
        "WORLDSIZE_HOME": "/h",
        "WORLDSIZE_RANK": "1",
        "MINE": "é",
    }
    assert node_environment._without_rank_variables(environ, scrub_rules(), ()) == scrub(environ)
    assert "SLURM_JOB_ID" in node_environment._without_rank_variables(environ, scrub_rules(), ("SLURM_JOB_ID",))


def environment_on_node(plan: Plan, own: Mapping[str, str]) -> dict[str, str]:
    paths = RunPaths("/nowhere/" + plan.run_id)
    wanted = command_spec(NodeCommand(("true",), (1,), paths.code, plan, paths))
    return node_environment.node_environment({**wanted, "plan": json.loads(plan.to_json())}, 1, own)


def test_where_no_rank_lives_it_is_as_a_ranks_would_be() -> None:
    """A rank's own environment is seen in the conformance suite."""
    own = {"PATH": "/bin", "RANK": "4", "CUDA_VISIBLE_DEVICES": "0,1", "PYTHONPATH": "/a"}
    found = environment_on_node(plan(path=("/env/bin",), environment={"A": "1", "WORLDSIZE_LR": "2"}), own)
    assert found == {
        "PATH": "/env/bin:/bin",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "PYTHONPATH": "/a",
        "A": "1",
        "WORLDSIZE_LR": "2",
        "WORLDSIZE_RUN_DIR": "/nowhere/" + plan().run_id,
        "WORLDSIZE_NODE_COUNT": "3",
        "WORLDSIZE_NODE_RANK": "1",
    }


def test_a_ranks_environment_without_its_device_and_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = RunPaths("/nowhere/" + plan().run_id).inrank
    rank = {"PATH": "/env/bin:/bin", "CUDA_VISIBLE_DEVICES": "3", "PYTHONPATH": hook + ":/a", "RANK": "3"}
    monkeypatch.setattr(node_environment, "living_rank_environment", lambda run_id, node: dict(rank))
    found = environment_on_node(plan(path=("/env/bin",), visible_devices=True), {"CUDA_VISIBLE_DEVICES": "0,1,2,3"})
    assert (found["PATH"], found["CUDA_VISIBLE_DEVICES"], found["PYTHONPATH"]) == ("/env/bin:/bin", "0,1,2,3", "/a")
    assert "CUDA_VISIBLE_DEVICES" not in environment_on_node(plan(visible_devices=True), {})


def test_what_a_command_leaves_behind_is_the_agents_helper_still(monkeypatch: pytest.MonkeyPatch) -> None:
    assert node_environment.HELPER_OF == HELPER_OF
    own = {"PATH": "/bin", HELPER_OF: "77"}
    assert environment_on_node(plan(), own)[HELPER_OF] == "77"
    of_rank = {"PATH": "/bin", HELPER_OF: "1"}
    monkeypatch.setattr(node_environment, "living_rank_environment", lambda run_id, node: of_rank)
    assert environment_on_node(plan(), own)[HELPER_OF] == "77"
    assert HELPER_OF not in environment_on_node(plan(), {"PATH": "/bin"})


# srun


def command(nodes: Sequence[int], hosts: Mapping[int, str], count: int = 3) -> NodeCommand:
    return NodeCommand(("true",), tuple(nodes), "/", plan(count), RunPaths("/r"), hosts)


def test_slurms_names_of_the_runs_nodes() -> None:
    place = slurm.RunningJob("7", ("a1", "a2", "a3"))
    assert slurm.numbers_of(place, command([0, 2], {0: "a3", 2: "a1.lab.org"})) == {"a3": 0, "a1": 2}
    assert slurm.numbers_of(place, command([1], {})) == {"a2": 1}, "the run has all of the job's nodes"
    with pytest.raises(UsageError, match="node 1 has not reported its name"):
        slurm.numbers_of(place, command([1], {}, count=2))


def test_a_step_beside_the_runs() -> None:
    place = slurm.RunningJob("7", ("a1", "a2", "a3"))
    argv = slurm.step_argv(place, ["a1", "a3"], (22, 5))
    assert argv[:2] == ["srun", "--jobid=7"] and "--overlap" in argv and "--nodelist=a[1,3]" in argv
    assert "--gres=none" not in argv
    assert "--gres=none" in slurm.step_argv(place, ["a1"], (21, 8)), "there --overlap shares CPUs alone: it would wait"


def test_the_job_is_asked_for_its_plain_number(tmp_path: Path) -> None:
    fake = FakeSlurm(tmp_path)
    fake.job("12_3", jobid="15", nodelist="a[1-2]")
    assert slurm.find_running_job("12_3", fake.run) == slurm.RunningJob("15", ("a1", "a2"))
    fake.job("16", "COMPLETED", jobid="16")
    with pytest.raises(UsageError, match="does not run now"):
        slurm.find_running_job("16", fake.run)
    with pytest.raises(UsageError, match="no longer has job 99"):
        slurm.find_running_job("99", fake.run)
    fake.mode("squeue", "away")
    with pytest.raises(SubmitAgain):
        slurm.find_running_job("12_3", fake.run)


def srun(folder: Path, script: str) -> dict[str, str]:
    """An srun that does `script`."""
    program = folder / "srun"
    program.write_text("#!/bin/sh\n" + script)
    program.chmod(0o755)
    return {"PATH": "%s:/usr/bin:/bin" % folder}


def test_srun_gets_the_computes_options_for_nodes_of_its_own(tmp_path: Path) -> None:
    said = tmp_path / "said"
    environ = {**srun(tmp_path, 'printf "%%s\\n" "$@" >%s; exit 0' % said), "SLURM_JOB_ID": "5", "LANG": "de"}
    asked = {"partition": "gpu", "account": "a,b", "gpus_per_node": "4", "requeue": True, "signal": "120"}
    alone = NodeCommand(("true",), (0, 1), "/", limit=30.0)
    stream = slurm.execute_on_own_nodes(alone, asked, "/env/python", environ)
    with pytest.raises(SubmitRejected, match="ended with code 0"):
        while stream.read_events(1) is not None:
            pass
    words = said.read_text().splitlines()
    for word in ("--nodes=2", "--ntasks=2", "--partition=gpu", "--account=a,b", "--gpus-per-node=4", "--time=2"):
        assert word in words
    assert not {"--requeue", "--signal=TERM@120", "--overlap", "--mem=0"} & set(words)
    assert "/env/python" in words


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("srun: error: Unable to allocate resources: Invalid account", SubmitRejected, "Invalid account"),
        ("srun: error: Unable to contact slurm controller (connect failure)", SubmitAgain, "cannot be reached"),
    ],
)
def test_what_srun_says_when_it_reaches_nobody(tmp_path: Path, text: str, kind: type, message: str) -> None:
    environ = srun(tmp_path, "echo '%s' >&2; exit 1" % text)
    with pytest.raises(kind, match=message):
        heard(slurm.execute_on_own_nodes(NodeCommand(("true",), (0,), "/"), {}, "python3", environ))


def test_no_srun_at_all(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="srun is not found"):
        slurm.execute_on_own_nodes(NodeCommand(("true",), (0,), "/"), {}, "python3", {"PATH": str(tmp_path)})


# the process that reaches the nodes


def heard(stream: object) -> list[NodeEvent]:
    assert isinstance(stream, ProcessCommandStream)
    said: list[NodeEvent] = []
    try:
        while (new := stream.read_events(0.1)) is not None:
            said += new
    finally:
        stream.close()
    return said


def start(script: str, clock: Callable[[], float] = time.monotonic, **rules: object) -> ProcessCommandStream:
    wanted = OutputRules(lambda text: SubmitRejected(text, "test"))._replace(**rules)
    return ProcessCommandStream([sys.executable, "-c", script], os.environ, wanted, clock)


UP = "import sys, time; print('ws1 0 up bg==', flush=True)\n"


def test_lines_that_are_not_its_own_are_left_out() -> None:
    script = UP + "print('motd'); print('ws1 0 out aGk='); print('ws1 0 end 3')"
    assert heard(start(script)) == [NodeEvent(0, "up", b"n"), NodeEvent(0, "out", b"hi"), NodeEvent(0, "end", code=3)]


def test_notes_wait_for_the_first_node_unless_they_are_news(tmp_path: Path) -> None:
    import re

    go = tmp_path / "go"
    script = "import sys; print('queued', 'later', 'chatter', sep='\\n', file=sys.stderr, flush=True)\n"
    waits = "import os, time\nwhile not os.path.exists(%r): time.sleep(0.01)\n" % str(go)
    stream = start(script + waits + UP, pass_on=re.compile("queued"), ignore=re.compile("chatter"))
    while not (found := stream.read_events(0.1)):
        assert found is not None
    assert found == [NodeEvent(-1, "note", b"queued")]
    go.touch()
    assert heard(stream) == [NodeEvent(-1, "note", b"later"), NodeEvent(0, "up", b"n")]
    with pytest.raises(SubmitRejected, match="later") as error:
        heard(start(script, pass_on=re.compile("queued"), ignore=re.compile("chatter")))
    assert "chatter" not in str(error.value) and "queued" not in str(error.value)


def up(script: str, clock: Callable[[], float] = time.monotonic, before: str = "") -> ProcessCommandStream:
    stream = start(before + UP + script, clock)
    while stream.read_events(0.1) != [NodeEvent(0, "up", b"n")]:
        pass
    return stream


def test_it_is_told_to_stop() -> None:
    stream = up("print('ws1 0 end', 7 if input() == 'stop' else 1)")
    stream.stop()
    assert heard(stream) == [NodeEvent(0, "end", code=7)]


HEARS_TERM = "import signal; signal.signal(signal.SIGTERM, lambda *_: print('ws1 0 out aGk=', flush=True))\n"
WAITS = "while True: time.sleep(0.01)"


def said_by(stream: ProcessCommandStream, seconds: float, clock: Clock) -> list[NodeEvent]:
    """What it says in a few turns, so many seconds later."""
    clock.now += seconds
    return [each for _ in range(3) for each in stream.read_events(0.05) or []]


def test_who_does_not_hear_that_it_should_stop_is_ended_after_the_grace_and_a_moment() -> None:
    """The nodes have the grace for themselves; then TERM to what reaches them, and KILL."""
    clock = Clock()
    stream = up(WAITS, clock, HEARS_TERM)
    stream.stop()
    assert said_by(stream, GRACE + _OVERTIME - 0.1, clock) == []
    clock.now += 0.1
    while not (found := stream.read_events(0.1)):
        assert found is not None
    assert found == [NodeEvent(0, "out", b"hi")]
    assert said_by(stream, _OVERTIME - 0.1, clock) == []
    clock.now += 0.1
    assert heard(stream) == []


def test_who_has_reached_no_node_hears_that_at_once() -> None:
    clock = Clock()
    stream = start("import sys, time; print('up', file=sys.stderr, flush=True)\n" + WAITS, clock)
    assert stream.read_events(10.0) == []
    stream.stop()
    assert heard(stream) == []


def test_a_second_stop_gives_no_more_time() -> None:
    clock = Clock()
    stream = up(WAITS, clock)
    stream.stop()
    clock.now += GRACE + _OVERTIME - 0.1
    stream.stop()
    clock.now += 0.1
    assert heard(stream) == []


def test_at_once_is_said_on_the_lifeline_and_output_nobody_reads_does_not_keep_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worldsize.wings.node_commands.by_process._AT_ONCE", 30)
    words = str(tmp_path / "words")
    stream = up("words = input(), input(); print('x' * 1_000_000); print(*words, file=open(%r, 'w'))" % words)
    stream.stop()
    stream.close()
    stream.close()
    with open(words) as file:
        assert file.read() == "stop now\n"


def test_a_process_that_has_reported_a_fatal_error_is_ended_soon() -> None:
    import re

    clock = Clock()
    script = UP + "print('STEP CANCELLED', file=sys.stderr, flush=True)\n" + WAITS
    stream = start(script, clock, fatal=re.compile("CANCELLED"))
    found: list[NodeEvent] = []
    while "note" not in [said.kind for said in found]:
        found += stream.read_events(0.1) or []
    assert [said.kind for said in found] == ["up", "note"]
    assert said_by(stream, _OVERTIME - 0.1, clock) == [] and stream.read_events(0.05) is not None
    clock.now += 0.1
    assert heard(stream) == []
