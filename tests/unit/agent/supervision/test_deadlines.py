"""What a supervisor must do at a time, by a clock that the tests move."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.agent.supervision.deadlines import Deadline, Part, Suspension, seconds_until_due

moments = st.none() | st.floats(-100, 100)


def part(at: float | None) -> Part:
    return Part(lambda: at, lambda now: None)


@given(st.lists(moments), st.floats(-100, 100), st.floats(0, 10))
def test_nobody_waits_longer_than_until_the_first_deadline(
    found: list[float | None], now: float, longest: float
) -> None:
    seconds = seconds_until_due([part(at) for at in found], now, longest)
    assert 0 <= seconds <= longest
    assert all(at is None or seconds <= max(0.0, at - now) for at in found)


def test_without_parts_the_longest_pause_is_made() -> None:
    assert seconds_until_due([], 5.0, 1.0) == 1.0 == seconds_until_due([part(None)], 5.0, 1.0)


def test_a_deadline_passes_once() -> None:
    limit = Deadline(10.0)
    assert [limit.is_passed(now) for now in (9.9, 10.0, 10.1)] == [False, True, False]
    assert limit.deadline() is None and not Deadline().is_passed(math.inf)


def test_a_process_that_runs_has_not_been_suspended() -> None:
    suspension = Suspension(0.0, 3.0)
    assert [suspension.notice(now) for now in (1.0, 2.5, 5.5)] == [1.0, 1.5, 3.0]
    assert not suspension.is_recent(5.5, 5.0)


@pytest.mark.parametrize(("later", "recent"), [(0.0, True), (4.9, True), (5.0, False)])
def test_what_comes_right_after_a_suspension_may_be_its_answer(later: float, recent: bool) -> None:
    suspension = Suspension(0.0, 3.0)
    assert suspension.notice(10.0) == 10.0 and suspension.seconds == 10.0
    assert suspension.is_recent(10.0 + later, 5.0) is recent
