"""What the judge writes, of samples, logs and records that are there, damaged, or not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded_stacks import rank_of_frames

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.hangs.agent import judge as module
from worldsize.wings.hangs.agent.judge import PROGRAM, Order, judge, look_of
from worldsize.wings.hangs.agent.ras_query import RasReply
from worldsize.wings.hangs.judgement.recorder.dump_lines import dump_line
from worldsize.wings.hangs.judgement.recorder.flight_recorder import Dump, Entry
from worldsize.wings.hangs.judgement.stacks.rank_stacks import stacks_line

TRAIN = "/job/train.py"
C10D = "/env/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py"
MODULE = ("<module>", TRAIN, 90)
LOCKED = (("acquire", "/usr/lib/python3.12/threading.py", 10), ("save", TRAIN, 7), MODULE)
IN_ALL_REDUCE = (("all_reduce", C10D, 3252), ("main", TRAIN, 41, "dist.all_reduce(x)"), MODULE)
WATCHDOG = (
    "[rank%d]:[E808 04:21:41.1 ProcessGroupNCCL.cpp:616] [Rank %d] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before"
)


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    found = RunPaths(str(tmp_path), 0)
    for folder in (found.stacks_dir, os.path.dirname(found.rank_log(0))):
        os.makedirs(folder)
    return found


def write_samples(paths: RunPaths, *frames: Any, per_node: int = 2) -> None:
    """Two samples of ranks at these frames, so many of them on each node."""
    for number, at in ((1, 1000.0), (2, 1002.0)):
        for node in range((len(frames) + per_node - 1) // per_node):
            ranks = range(node * per_node, min(len(frames), (node + 1) * per_node))
            lines = [stacks_line(rank_of_frames(rank, *frames[rank], time=at)) for rank in ranks if frames[rank]]
            Path(paths.stacks_of_node(node, number)).write_text("\n".join(lines))


def order(paths: RunPaths, size: int, **fields: Any) -> Order:
    return Order(paths.root, 0, (1, 2), size, tuple(range(size)), 60.0, 940.0, **fields)


def test_the_rank_that_stands_elsewhere(paths: RunPaths) -> None:
    write_samples(paths, IN_ALL_REDUCE, IN_ALL_REDUCE, IN_ALL_REDUCE, LOCKED)
    found = judge(order(paths, 4))
    assert (found["alive"], found["kind"], found["ranks"], found["nodes"]) == (False, "H1", (3,), [1])
    assert (found["standing"], found["witnesses"], found["place"]) == ("supported", ("stacks",), (TRAIN, 7, "save"))
    assert found["missing"]["recorder"] == "no rank has left a dump" and found["missing"]["ras"] == "it was not queried"
    assert found["sentence"].startswith("rank 3 (node 1) has not entered all_reduce; 3 others wait there")
    assert found["groups"][0].startswith("rank 3: waits for a lock")


def test_a_log_that_says_the_same_makes_it_established(paths: RunPaths) -> None:
    write_samples(paths, IN_ALL_REDUCE, LOCKED, IN_ALL_REDUCE, IN_ALL_REDUCE)
    for rank in (0, 2, 3):
        Path(paths.rank_log(rank)).write_text("begins\n" + WATCHDOG % (rank, rank) + "\n")
    found = judge(order(paths, 4))
    assert (found["standing"], found["witnesses"], found["ranks"]) == ("established", ("watchdog", "stacks"), (1,))
    assert found["sequence"] == 7


def test_ranks_that_do_not_live_have_ended(paths: RunPaths) -> None:
    write_samples(paths, IN_ALL_REDUCE, (), IN_ALL_REDUCE)
    found = judge(order(paths, 3)._replace(living=(0, 2)))
    assert (found["standing"], found["ranks"]) == ("established", (1,))
    assert "has ended with code 0" in found["sentence"]


def test_a_run_that_works_has_no_verdict(paths: RunPaths) -> None:
    write_samples(paths, IN_ALL_REDUCE, LOCKED)
    moved = Path(paths.stacks_of_node(0, 2))
    line = stacks_line(rank_of_frames(1, ("fetch", TRAIN, 15), MODULE, time=1002.0))
    moved.write_text(moved.read_text().split("\n")[0] + "\n" + line)
    found = judge(order(paths, 2))
    assert found["alive"] and "verdict" not in found and "sentence" not in found


@pytest.mark.parametrize("text", ["", "[", "[1, 2]\n{}\nnull", "\0" * 1000, "[" * 100_000])
def test_samples_may_be_anything(paths: RunPaths, text: str) -> None:
    for number in (1, 2):
        Path(paths.stacks_of_node(0, number)).write_text(text)
    assert judge(order(paths, 2))["alive"]
    os.remove(paths.stacks_of_node(0, 2))
    assert judge(order(paths, 2))["alive"]


def test_ras_is_asked_where_nothing_else_names_a_rank_and_when_it_may(
    paths: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[int]] = []

    def ask(pids: Any) -> RasReply:
        asked.append(list(pids))
        return RasReply("", "no answer")

    monkeypatch.setattr(module, "ask_ras_of", ask)
    write_samples(paths, IN_ALL_REDUCE, LOCKED, IN_ALL_REDUCE, LOCKED)
    found = judge(order(paths, 4, asks_ras=True))
    assert (found["standing"], found["asked_ras"], asked) == ("unknown", True, [[100, 101]])
    assert found["missing"]["ras"] == "no answer"
    assert "asked_ras" not in judge(order(paths, 4))
    write_samples(paths, IN_ALL_REDUCE, LOCKED, IN_ALL_REDUCE, IN_ALL_REDUCE)
    assert "asked_ras" not in judge(order(paths, 4, asks_ras=True))
    assert len(asked) == 1


def test_what_is_kept_of_a_look_is_read_for_the_next(paths: RunPaths) -> None:
    write_samples(paths, IN_ALL_REDUCE, LOCKED)
    found = json.loads(json.dumps(judge(order(paths, 2))))
    look = look_of(found["summary"])
    assert look is not None and look.at == 1002.0 and set(look.ranks) == {0, 1}
    for damaged in (None, [], [1.0], [1.0, {"a": []}], [1.0, {"0": [1, 2]}], ["x", {}]):
        assert look_of(damaged) is None
    assert not judge(order(paths, 2, former=(found["summary"], None, [1])))["alive"]


def test_looks_before_the_latest_recorded_call_do_not_count(paths: RunPaths) -> None:
    write_samples(paths, IN_ALL_REDUCE, ())
    for number, line in ((1, 15), (2, 16)):
        sample = Path(paths.stacks_of_node(0, number))
        text = stacks_line(rank_of_frames(1, ("step", TRAIN, line), MODULE, time=1000.0 + 2 * (number - 1)))
        sample.write_text(sample.read_text() + "\n" + text)
    _, ranks = judge(order(paths, 2))["summary"]
    former = ((400.0, ranks), (700.0, ranks))
    assert not judge(order(paths, 2, former=former))["alive"], "three looks show the same"
    told = Path(paths.stacks_of_node(0, 2)).read_text()
    for seconds, is_alive in ((100.0, True), (301.0, True), (603.0, False)):
        entered = Entry("0", "default_pg", "gloo", 2, 0, False, "all_reduce", (), (), "scheduled", False, 5000.0, ())
        recorded = Dump(0, (entered,), {}, True, 5000.0 + seconds)
        Path(paths.stacks_of_node(0, 2)).write_text(told + "\n" + dump_line(recorded))
        assert judge(order(paths, 2, former=former))["alive"] is is_alive, seconds


def test_as_a_program(paths: RunPaths) -> None:
    write_samples(paths, IN_ALL_REDUCE, LOCKED)
    source = str(Path(module.__file__).parents[4])
    command = [sys.executable, "-I", "-S", "-c", PROGRAM, source]
    subprocess.run(command, input=json.dumps(order(paths, 2)._asdict()), text=True, check=True)
    assert json.loads(Path(paths.judged).read_text())["ranks"] == [1]
    done = subprocess.run(command, input='{"root": 1}', text=True, capture_output=True, check=False)
    assert done.returncode == 1 and done.stderr.startswith("worldsize: this is not an order to judge a run")
