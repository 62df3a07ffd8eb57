"""What `worldsize stacks` makes of the stacks that nodes told: groups, verdict, lines and JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recorded_stacks import rank_of_frames, thread_of, work_of

from worldsize.plan.plan import NodePlan, Plan, node_major_layout
from worldsize.wings.hangs.asked_nodes import Unanswered
from worldsize.wings.hangs.judgement.stacks.rank_stacks import RankStacks
from worldsize.wings.hangs.run_stacks import AskedRun, RunStacks, asked_run, ended_ranks, run_stacks
from worldsize.wings.hangs.stacks_json import stacks_object
from worldsize.wings.hangs.stacks_text import stacks_lines
from worldsize_conformance.json_check import problem

CODE = "/home/me/.worldsize/runs/20260101-abc/code/train.py"
C10D = "/env/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py"
IN_BARRIER = (("barrier", C10D, 5000), ("main", CODE, 43, "dist.barrier()"), ("<module>", CODE, 90))
SLEEPS = (("load", CODE, 7, "time.sleep(600)"), ("main", CODE, 41), ("<module>", CODE, 90))
COMPUTES = (("load", CODE, 8), ("main", CODE, 41), ("<module>", CODE, 90))
RUN = AskedRun("20260101-abc", 0, {0: 0, 1: 0, 2: 1, 3: 1}, 300.0)
VERDICT = (
    "verdict (supported, by stacks): rank 2 (node 1) has not entered barrier; 3 others wait there; "
    "it is in load, train.py:7"
)


def looked(
    *ranks: RankStacks, once: bool = False, ended: dict[int, int] | None = None, unanswered: tuple[Unanswered, ...] = ()
) -> RunStacks:
    """What two looks that are alike, two seconds apart, have found."""
    later = [each._replace(time=each.time + 2.0) for each in ranks]
    return run_stacks(RUN, [ranks] if once else [ranks, later], ended or {}, unanswered, 100)


def waiting(*ranks: int) -> list[RankStacks]:
    return [rank_of_frames(rank, *IN_BARRIER) for rank in ranks]


def as_json(found: RunStacks, *wanted: int) -> dict[str, Any]:
    value = json.loads(json.dumps(stacks_object(found, wanted or list(RUN.nodes))))
    assert problem("stacks", value) == ""
    return value


ONE_SLEEPS = (rank_of_frames(2, *SLEEPS), *waiting(0, 1, 3))


def test_the_rank_that_the_others_wait_for() -> None:
    found = looked(*ONE_SLEEPS)
    assert stacks_lines(found, ()) == [
        "rank 2: sleeps in sleep at train.py:7 in load",
        "  train.py:7 in load: time.sleep(600)",
        "  train.py:41 in main",
        "  train.py:90 in <module>",
        "ranks 0-1,3: wait in barrier at train.py:43 in main",
        "  train.py:43 in main: dist.barrier()",
        "  train.py:90 in <module>",
        "",
        VERDICT,
    ]
    value = as_json(found)
    verdict = value["verdict"]
    assert [group["ranks"] for group in value["groups"]] == [[2], [0, 1, 3]]
    assert (verdict["works"], verdict["kind"], verdict["ranks"], verdict["nodes"]) == (False, "H1", [2], [1])
    assert verdict["place"] == {"file": CODE, "line": 7, "function": "load"}
    assert value["ranks"][2]["waits_for"] == {"kind": "sleep", "call": "sleep"}


def test_a_run_that_works() -> None:
    before = [rank_of_frames(2, *COMPUTES, work=(work_of(100),)), *waiting(0, 1, 3)]
    after = [each._replace(time=each.time + 2.0) for each in before]
    after[0] = after[0]._replace(work=(work_of(300),))
    found = run_stacks(RUN, [before, after], {}, (), 100)
    assert stacks_lines(found, ())[-1] == "it works: rank 2: computes at train.py:8 in load"
    verdict = as_json(found)["verdict"]
    assert (verdict["works"], verdict["standing"], verdict["kind"]) == (True, None, None)


def test_a_rank_at_a_checkpoint_may_work() -> None:
    saves = (("save", "/env/lib/python3.12/site-packages/torch/serialization.py", 900), ("main", CODE, 50))
    found = looked(rank_of_frames(0, *saves), *waiting(1, 2, 3))
    assert stacks_lines(found, ())[-1].startswith("it may work: rank 0 ")
    assert as_json(found)["verdict"]["works"] is None


def test_ranks_that_were_all_stopped_are_not_said_to_work() -> None:
    found = looked(*(rank_of_frames(rank, *IN_BARRIER, state="T") for rank in range(4)))
    assert stacks_lines(found, ())[-1].startswith("whether it makes progress is unknown: all ranks are stopped")
    assert as_json(found)["verdict"]["works"] is None


def test_a_stopped_rank_is_established() -> None:
    found = looked(rank_of_frames(0, *IN_BARRIER, state="T"), *waiting(1, 2, 3))
    assert stacks_lines(found, ())[-1].startswith("verdict (established, by process")
    assert "rank 0 (node 0) is stopped" in stacks_lines(found, ())[-1]


def test_one_look_says_no_verdict() -> None:
    found = looked(*ONE_SLEEPS, once=True)
    assert "--once" in stacks_lines(found, ())[-1] and as_json(found)["verdict"] is None


def test_ranks_and_nodes_of_which_nothing_is_known() -> None:
    silent = (Unanswered(1, "n1", "it has sent nothing for 20 s"),)
    found = looked(rank_of_frames(0, *SLEEPS), ended={1: 0}, unanswered=silent)
    lines = stacks_lines(found, ())
    assert "rank 1: has ended with code 0" in lines and "ranks 2-3: are not known" in lines
    assert "node 1 (n1) has not sent all stacks: it has sent nothing for 20 s" in lines
    value = as_json(found)
    assert [rank["problem"] for rank in value["ranks"]] == [
        None,
        "has ended with code 0",
        "is not known",
        "is not known",
    ]
    assert value["unanswered"] == [{"node": 1, "host": "n1", "reason": "it has sent nothing for 20 s"}]
    gone = looked(*waiting(0, 1, 2))
    assert "rank 3: has no process that was found" in stacks_lines(gone, ())


def test_the_stacks_of_a_rank_in_full() -> None:
    other = thread_of(("wait", "/usr/lib/python3.12/threading.py", 10))._replace(name="Thread-1", main=False)
    worker = rank_of_frames(2, *COMPUTES, pid=7, parent=102, command="python3")
    first = ONE_SLEEPS[0]._replace(command="python3", problem="py-spy: Permission denied", source="faulthandler")
    first = first._replace(threads=(other, *first.threads))
    found = looked(first, worker, *waiting(0, 1, 3))
    lines = stacks_lines(found, (2,))
    assert lines[:11] == [
        "rank 2: sleeps in sleep at train.py:7 in load",
        "ranks 0-1,3: wait in barrier at train.py:43 in main",
        "",
        "rank 2 on node 1, process 102 (python3), state S, by faulthandler: sleeps in sleep at train.py:7 in load",
        "  py-spy: Permission denied",
        "  thread Thread-1, idle",
        "    /usr/lib/python3.12/threading.py:10 in wait",
        "  thread MainThread, the main one, idle",
        "    train.py:7 in load: time.sleep(600)",
        "    train.py:41 in main",
        "    train.py:90 in <module>",
    ]
    assert lines[12].startswith("rank 2 on node 1, process 7, a child of 102 (python3)")
    (rank,) = as_json(found, 2)["ranks"]
    assert [len(thread["frames"]) for thread in rank["threads"]] == [1, 3]
    assert [child["parent"] for child in rank["children"]] == [102]


def test_what_nodes_say_drives_no_terminal() -> None:
    bad = ("lo\x1b[2Jad\nx", "/tmp/\x07.py", 3, "a\x1b]0;b")
    found = looked(
        rank_of_frames(0, bad, command="\x1b[31m", problem="\x1b[1m\n", wait_channel="\n"),
        unanswered=(Unanswered(1, "n\x071", "\x1b[2J\n"),),
    )
    for full in ((), (0,)):
        assert all(line.isprintable() for line in stacks_lines(found, full))
    as_json(found)


def test_long_stacks_are_cut_where_nobody_asked_for_all() -> None:
    deep = [("f%d" % number, CODE, number, "x" * 300) for number in range(9)]
    lines = stacks_lines(looked(rank_of_frames(0, *deep)), ())
    assert "  and 4 more" in lines and max(map(len, lines[:6])) < 150


def test_the_latest_look_at_each_rank_counts() -> None:
    before = [rank_of_frames(0, *SLEEPS), rank_of_frames(2, *SLEEPS)]
    after = [rank_of_frames(0, *IN_BARRIER, time=1002.0)]
    found = run_stacks(RUN, [before, after], {}, (), 100)
    assert [(each.rank, each.time) for each in found.latest] == [(0, 1002.0), (2, 1000.0)]
    late = run_stacks(RUN, [before, []], {}, (), 100)
    assert len(late.latest) == 2 and stacks_lines(late, ())[-1].endswith("is unknown: no rank was seen twice")


@pytest.mark.parametrize(
    ("event", "found"),
    [
        ({"event": "rank_exited", "ranks": [0, 3], "code": 0}, {0: 0, 3: 0}),
        ({"event": "rank_exited", "ranks": [99, "x", None], "code": 1}, {}),
        ({"event": "rank_exited", "ranks": 3, "code": 1}, {}),
        ({"event": "rank_exited", "ranks": [1], "code": None}, {}),
        ({"event": "ranks_started", "ranks": [1], "code": 1}, {}),
    ],
)
def test_ranks_that_have_ended(event: dict[str, Any], found: dict[int, int]) -> None:
    assert ended_ranks([event], RUN.nodes) == found


def test_the_limit_is_that_of_the_jobs_watchdog() -> None:
    layout: tuple[NodePlan, ...] = node_major_layout(2, 2)
    plan = Plan("r", "r", "local", 0.0, 0, layout, ("true",), {}, watchdog_timeout=20.0)
    assert asked_run("r", 1, plan) == AskedRun("r", 1, {0: 0, 1: 0, 2: 1, 3: 1}, 20.0)
    assert asked_run("r", 1, plan._replace(watchdog_timeout=0.0)).limit == 300.0
