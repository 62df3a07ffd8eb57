"""Nodes that share out their own CPUs: ranks are bound to them, and the record says so."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest
from local_runs import LocalRuns

from worldsize.agent.launchers.cpu_binding import own_cpu_shares

TELL = "import json, os; print(json.dumps([sorted(os.sched_getaffinity(0)), os.environ['OMP_NUM_THREADS']]))"
CPUS = len(os.sched_getaffinity(0))


@pytest.fixture
def start(tmp_path) -> Iterator[LocalRuns]:
    runs = LocalRuns(str(tmp_path / "home"))
    yield runs
    runs.destroy()


@pytest.mark.parametrize("nodes", [1, 2])
def test_each_rank_has_its_share(start, nodes):
    run = start.python(TELL, nodes=nodes, ranks=CPUS, bind="node")
    assert run.ended()["state"] == "SUCCEEDED"
    shares = own_cpu_shares(CPUS)
    for node in run.plan.nodes:
        recorded = run.event(node.node_rank, "ranks_started")["cpus"]
        for rank in node.ranks:
            cpus = list(shares[rank.local_rank])
            assert json.loads(run.log(rank.rank)) == [sorted(cpus), str(len(cpus))]
            assert recorded[str(rank.rank)] == cpus


def test_threads_that_the_plan_names_stay(start):
    run = start.python(TELL, bind="node", threads=7)
    assert run.ended()["state"] == "SUCCEEDED"
    assert json.loads(run.log(0)) == [sorted(os.sched_getaffinity(0)), "7"]


@pytest.mark.parametrize(("bind", "ranks"), [("none", 1), ("node", CPUS + 1)], ids=["not asked", "too many ranks"])
def test_who_is_left_alone(start, bind, ranks):
    run = start.python(TELL, ranks=ranks, bind=bind)
    assert run.ended()["state"] == "SUCCEEDED"
    assert json.loads(run.log(0))[0] == sorted(os.sched_getaffinity(0))
    assert "cpus" not in run.event(0, "ranks_started")
