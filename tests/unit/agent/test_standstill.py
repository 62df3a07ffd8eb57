"""When ranks count as idle, and when a run hangs: the pure parts."""

from __future__ import annotations

import pytest

from worldsize.agent.supervision.standstill import ProcessActivity, Sample, hang_failure, is_busy
from worldsize.plan.plan import Plan
from worldsize.plan.rank_layout import node_major_layout

HERTZ = 100
BEFORE = Sample(10.0, (5, 7), {1: ProcessActivity(1000, 5000, False), 2: ProcessActivity(0, 0, False)})


def after(seconds: float, ticks: int = 0, moved: int = 0, held: bool = False, logged=(5, 7), work=None) -> Sample:
    grown = {**BEFORE.work, 1: ProcessActivity(1000 + ticks, 5000 + moved, held)}
    return Sample(10.0 + seconds, logged, grown if work is None else work)


@pytest.mark.parametrize(
    ("sample", "busy"),
    [
        (after(5), False),
        (after(5, ticks=25), False),
        (after(5, ticks=27), True),
        (after(5, moved=20_000), False),
        (after(5, moved=21_000), True),
        (after(5, ticks=-1), True),
        (after(5, moved=-1), True),
        (after(5, held=True), True),
        (after(5, logged=(5, 8)), True),
        (after(5, work={1: BEFORE.work[1]}), True),
        (after(5, work={**BEFORE.work, 3: ProcessActivity(0, 0, False)}), True),
        (after(0.1, ticks=1), False),
        (after(0.1, ticks=2), True),
    ],
    ids=["nothing", "wakes up", "computes", "talks a little", "reads", "a child has gone", "a child that read has gone",
         "stopped", "prints", "a process less", "a process more", "one tick", "two ticks"],
)  # fmt: skip
def test_is_busy(sample, busy):
    assert is_busy(BEFORE, sample, HERTZ) is busy


def plan(limit: float) -> Plan:
    return Plan("r", "t", "local", 1.0, 0, node_major_layout(3, 2), ("true",), {}, hang_timeout=limit)


def test_a_run_hangs_once_every_node_that_is_left_has_stood_still_for_long_enough():
    stuck = [([0, 1], 9.0), ([], 0.0), ([4], 5.5)]
    failure = hang_failure(plan(5), stuck)
    assert failure is not None and (failure.reason, failure.code, failure.rank) == ("HANG", 124, None)
    assert failure.message == (
        "ranks 2-3,5 ended with code 0, and ranks 0-1,4 went on waiting: "
        "no output, CPU time or I/O for 6 s (hang_timeout: 5)"
    )
    assert hang_failure(plan(6), stuck) is None


@pytest.mark.parametrize("nodes", [[], [([], 99.0)]])
def test_without_a_rank_that_waits_nothing_hangs(nodes):
    assert hang_failure(plan(1), nodes) is None
