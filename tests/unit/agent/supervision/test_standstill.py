"""When ranks count as idle, for how long they have been, and when a run hangs: by times that the tests choose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.agent.supervision.standstill import Idleness, ProcessActivity, Sample, hang_failure, is_busy
from worldsize.plan.plan import Plan, node_major_layout

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
        (after(5, ticks=187), True),
        (after(5, moved=20_000), False),
        (after(5, moved=21_000), True),
        (after(5, moved=1_000_000), True),
        (after(5, ticks=-1), True),
        (after(5, moved=-1), True),
        (after(5, held=True), True),
        (after(5, logged=(5, 8)), True),
        (after(5, logged=(5, -1)), True),
        (after(5, work={1: BEFORE.work[1]}), True),
        (after(5, work={**BEFORE.work, 3: ProcessActivity(0, 0, False)}), True),
        (after(0.1, ticks=1), False),
        (after(0.1, ticks=2), True),
    ],
    ids=["nothing", "wakes up", "computes", "a third of a core", "talks a little", "reads", "reads a lot",
         "a child has gone", "a child that read has gone", "stopped", "prints", "a log has gone", "a process less",
         "a process more", "one tick", "two ticks"],
)  # fmt: skip
def test_is_busy(sample, busy):
    assert is_busy(BEFORE, sample, HERTZ) is busy


# for how long


def idle(at: float) -> Sample:
    return after(at - 10.0)


def test_idleness_is_counted_from_the_first_sample_on() -> None:
    idleness = Idleness(every=1.0, hertz=HERTZ)
    assert [idleness.seconds(idle(at), {1}) for at in (10.0, 11.0, 12.5, 13.0)] == [0.0, 1.0, 2.5, 3.0]


def test_any_work_starts_it_anew() -> None:
    idleness = Idleness(every=1.0, hertz=HERTZ)
    works = after(3.0, ticks=50)
    samples = [idle(10.0), idle(11.0), idle(12.0), works, works._replace(at=14.0)]
    assert [idleness.seconds(each, {1}) for each in samples] == [0.0, 1.0, 2.0, 0.0, 1.0]


@pytest.mark.parametrize(("late", "seconds"), [(3.0, 4.0), (3.1, 0.0), (100.0, 0.0)])
def test_a_sample_that_comes_late_starts_it_anew(late: float, seconds: float) -> None:
    """The run was paused, ranks included: they may be about to go on."""
    idleness = Idleness(every=1.0, hertz=HERTZ)
    for at in (10.0, 11.0):
        idleness.seconds(idle(at), {1})
    assert idleness.seconds(idle(11.0 + late), {1}) == seconds
    assert idleness.seconds(idle(12.0 + late), {1}) == seconds + 1.0


def test_a_rank_that_somebody_has_stopped_is_never_idle() -> None:
    idleness = Idleness(every=1.0, hertz=HERTZ)
    assert [idleness.seconds(after(float(at), held=True), {1}) for at in range(100)] == [0.0] * 100
    assert [idleness.seconds(after(float(at)), {1}) for at in (100, 101)] == [1.0, 2.0]


def test_a_rank_of_which_nothing_could_be_read_is_not_idle() -> None:
    idleness = Idleness(every=1.0, hertz=HERTZ)
    assert [idleness.seconds(idle(at), {1, 9}) for at in (10.0, 11.0, 12.0)] == [0.0] * 3


def test_the_end_of_a_rank_starts_it_anew() -> None:
    idleness = Idleness(every=1.0, hertz=HERTZ)
    idleness.seconds(idle(10.0), {1, 2})
    assert idleness.seconds(idle(11.0), {1, 2}) == 1.0
    ended = after(2.0, work={1: BEFORE.work[1]})
    assert idleness.seconds(ended, {1}) == 0.0
    assert idleness.seconds(ended._replace(at=13.0), {1}) == 1.0


EXACT_SECONDS = st.integers(1, 1280).map(lambda count: count / 128)
"""Their sums and differences are exact, so that a pause of exactly the limit is one in every sum."""


@given(st.lists(st.tuples(EXACT_SECONDS, st.booleans()), max_size=30))
def test_idleness_is_never_longer_than_since_the_last_work_or_pause(steps: list[tuple[float, bool]]) -> None:
    idleness, at, ticks, since = Idleness(every=2.0, hertz=HERTZ), 10.0, 0, 10.0
    idleness.seconds(idle(at), {1})
    for pause, works in steps:
        at += pause
        ticks += 1000 * works
        if works or pause > 6.0:
            since = at
        assert idleness.seconds(after(at - 10.0, ticks=ticks), {1}) == pytest.approx(at - since, abs=1e-6)


# when a run hangs


def plan(limit: float, nodes: int = 3, ranks: int = 2) -> Plan:
    layout = node_major_layout(nodes, ranks)
    return Plan("r", "t", "local", 1.0, 0, layout, ("true",), {}, hang_timeout=limit)


def test_a_run_hangs_once_every_node_that_is_left_has_stood_still_for_long_enough():
    stuck = [([0, 1], 9.0), ([], 0.0), ([4], 5.5)]
    failure = hang_failure(plan(5), stuck)
    assert failure is not None and (failure.reason, failure.code, failure.rank) == ("HANG", 124, None)
    assert failure.message == (
        "ranks 2-3,5 ended with code 0, and ranks 0-1,4 still waited: "
        "no output, CPU time or I/O for 6 s (hang_timeout: 5)"
    )
    assert hang_failure(plan(6), stuck) is None


@pytest.mark.parametrize(
    ("nodes", "ranks", "waiting", "words"),
    [
        (1, 2, [[1]], "rank 0 ended with code 0, and rank 1 still waited"),
        (1, 4, [[0, 2]], "ranks 1,3 ended with code 0, and ranks 0,2 still waited"),
        (2, 1, [[], [1]], "rank 0 ended with code 0, and rank 1 still waited"),
        (2, 1, [[0]], "rank 1 ended with code 0, and rank 0 still waited"),
        (3, 2, [[0, 1], [5]], "ranks 2-4 ended with code 0, and ranks 0-1,5 still waited"),
    ],
)
def test_who_waits_and_who_has_ended_are_named(nodes: int, ranks: int, waiting: list[list[int]], words: str) -> None:
    """A node whose ranks have all ended is done, and tells nothing any more, or that nobody waits there."""
    failure = hang_failure(plan(2, nodes, ranks), [(each, 2.0) for each in waiting])
    assert failure is not None and words in failure.message


@pytest.mark.parametrize("nodes", [[], [([], 99.0)]])
def test_without_a_rank_that_waits_nothing_hangs(nodes):
    assert hang_failure(plan(1), nodes) is None


@pytest.mark.parametrize("seconds", [0.0, 4.9])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_one_node_that_works_keeps_all(seconds: float, place: int) -> None:
    told = [([0], 600.0), ([2], 600.0), ([4], 600.0)]
    told[place] = (told[place][0], seconds)
    assert hang_failure(plan(5), told) is None


@pytest.mark.parametrize("seconds", [0.0, 1.0, 1e9])
def test_a_job_that_wants_no_limit_never_hangs(seconds: float) -> None:
    assert hang_failure(plan(0), [([1], seconds)]) is None


def test_the_limit_of_a_job_that_says_none() -> None:
    assert Plan("r", "t", "local", 1.0, 0, node_major_layout(1, 2), ("true",), {}).hang_timeout == 300
