"""stacks on this machine: real ranks, which wait, work, or have ended."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import pytest
from driver import Cli, wait_for

WAITS = """
import os, threading, time
def load():
    time.sleep(600)
def main():
    if os.environ["RANK"] == "2":
        load()
    threading.Event().wait()
main()
"""
WORKS = "def work():\n    while True:\n        sum(range(10000))\nwork()\n"
BARRIER = """
import os, time
import torch.distributed as dist
dist.init_process_group("gloo")
def load():
    time.sleep(600)
if os.environ["RANK"] == "1":
    load()
dist.barrier()
"""


def begun(cli: Cli, source: str, world: str = "2x2", **waits_for: str) -> str:
    """A run whose ranks have come to where they wait: `rank_2="sleep"`, `others="lock"`."""
    cli.write("train.py", source)
    run = cli.submit("-w", world, "--", "python", "train.py")
    nodes, _, each = world.partition("x")
    kinds = [waits_for.get("rank_%d" % rank, waits_for["others"]) for rank in range(int(nodes) * int(each))]

    def has_settled() -> bool:
        result = cli("stacks", run, "--once", "-o", "json")
        ranks = json.loads(result.out)["ranks"] if result.code == 0 else []
        return [(rank["waits_for"] or {}).get("kind") for rank in ranks] == kinds

    wait_for(lambda: cli.has_begun(run))
    wait_for(has_settled, 60)
    return run


def asked(cli: Cli, *words: str) -> dict[str, Any]:
    value: dict[str, Any] = cli.json("stacks", *words)
    return value


def test_groups_full_stacks_and_json(cli: Cli) -> None:
    run = begun(cli, WAITS, rank_2="sleep", others="lock")
    result = cli.ok("stacks", "--seconds", "0.2")
    assert run in result.err, "it says which run it means"
    assert result.lines[:4] == [
        "rank 2: sleeps in sleep at train.py:4 in load",
        "  train.py:4 in load: time.sleep(600)",
        "  train.py:7 in main",
        "  train.py:9 in <module>",
    ]
    assert result.lines[4].startswith("ranks 0-1,3: wait for a lock in ") and "verdict (unknown" in result.lines[-1]
    full = cli.ok("stacks", run, "--once", "--rank", "2").out
    assert "rank 2 on node 1, process " in full and "    train.py:4 in load: time.sleep(600)\n" in full
    every = cli.ok("stacks", "--all", "--once").out
    assert all("rank %d on node %d, process " % (rank, rank // 2) in every for rank in range(4))
    value = asked(cli, "--seconds", "0.2", "--rank", "1-2")
    assert (value["id"], value["attempt"], value["unanswered"]) == (run, 0, [])
    assert [group["ranks"] for group in value["groups"]] == [[2], [0, 1, 3]]
    assert [rank["rank"] for rank in value["ranks"]] == [1, 2]
    assert all(os.path.exists("/proc/%d" % rank["pid"]) for rank in value["ranks"])
    assert value["verdict"]["standing"] == "unknown"
    cli.ok("cancel", run, "--now")


def test_a_rank_that_somebody_has_stopped_is_named(cli: Cli) -> None:
    run = begun(cli, WAITS, rank_2="sleep", others="lock")
    os.kill(asked(cli, "--once", "--rank", "0")["ranks"][0]["pid"], signal.SIGSTOP)
    verdict = asked(cli, "--seconds", "0.2")["verdict"]
    assert (verdict["standing"], verdict["ranks"], verdict["nodes"]) == ("established", [0], [0])
    cli.ok("cancel", run, "--now")


def test_a_run_that_works(cli: Cli) -> None:
    cli.write("train.py", WORKS)
    run = cli.submit("-w", "1x2", "--", "python", "train.py")
    wait_for(lambda: cli.has_begun(run))
    wait_for(lambda: "it works: rank 0: computes at train.py:" in cli.ok("stacks", "--seconds", "1").lines[-1], 60)
    cli.ok("cancel", run, "--now")


def test_the_rank_that_others_wait_for_in_a_barrier(cli: Cli) -> None:
    pytest.importorskip("torch")
    run = begun(cli, BARRIER, "1x3", rank_1="sleep", others="collective")
    last = cli.ok("stacks", "--seconds", "0.5").lines[-1]
    assert last.startswith(
        "verdict (supported, by stacks): rank 1 (node 0) has not entered barrier; 2 others wait there"
    )
    assert last.endswith("; it is in load, train.py:6")
    cli.ok("cancel", run, "--now")


def test_mistakes_are_said(cli: Cli) -> None:
    for words, said in (
        ((), "no run is running\n  → `worldsize why` explains how the latest run ended"),
        (("nope",), "there is no run yet"),
        (("--seconds", "61"), "--seconds: 61 s is too long"),
        (("--once", "--seconds", "1"), "--once takes one"),
        (("--all", "--rank", "0"), "both --rank and --all"),
    ):
        result = cli("stacks", *words)
        assert (result.code, result.out) == (2, "") and said in result.err, result
    run = cli.run("--", "true")
    over = cli("stacks", run)
    assert over.code == 2 and "%s is over (SUCCEEDED)" % run in over.err and "`worldsize why %s`" % run in over.err
