"""TERM, grace, KILL: when each is due, by a clock that the tests move."""

from __future__ import annotations

import signal

from hypothesis import given
from hypothesis import strategies as st

from worldsize.common.termination import Termination

seconds = st.floats(0, 1000)


def test_nothing_is_due_before_a_request() -> None:
    end = Termination()
    assert (end.signal_due(1e9), end.deadline(), end.is_overdue(1e9)) == (None, None, False)


def test_term_at_once_and_kill_after_the_grace() -> None:
    end = Termination()
    end.request(100.0, 5.0)
    assert end.deadline() == 100.0
    assert [end.signal_due(now) for now in (100.0, 100.1, 104.9)] == [signal.SIGTERM, None, None]
    assert end.deadline() == 105.0
    assert [end.signal_due(now) for now in (105.0, 106.0)] == [signal.SIGKILL, signal.SIGKILL]


def test_term_may_come_later() -> None:
    end = Termination()
    end.request(100.0, 5.0, delay=3.0)
    assert [end.signal_due(now) for now in (102.9, 103.0, 107.9, 108.0)] == [
        None, signal.SIGTERM, None, signal.SIGKILL,
    ]  # fmt: skip


def test_no_grace_is_kill_at_once() -> None:
    end = Termination()
    end.request(100.0, 0.0)
    assert end.signal_due(100.0) == signal.SIGKILL


def test_a_second_request_is_no_second_term() -> None:
    end = Termination()
    end.request(100.0, 5.0)
    assert end.signal_due(100.0) == signal.SIGTERM
    end.request(101.0, 2.0)
    assert end.signal_due(101.0) is None and end.kill_at == 103.0


@given(st.lists(st.tuples(seconds, seconds, seconds), min_size=1))
def test_a_request_never_gives_more_time(requests: list[tuple[float, float, float]]) -> None:
    end = Termination()
    for now, grace, delay in requests:
        before = end.kill_at
        end.request(now, grace, delay)
        assert end.kill_at is not None and end.kill_at <= now + delay + grace
        assert before is None or end.kill_at <= before
    assert end.kill_at == min(now + delay + grace for now, grace, delay in requests)


@given(st.lists(st.tuples(seconds, seconds), min_size=1), st.lists(seconds))
def test_term_comes_once_and_never_after_kill(requests: list[tuple[float, float]], moments: list[float]) -> None:
    end = Termination()
    for now, grace in requests:
        end.request(now, grace)
    found = [due for due in map(end.signal_due, sorted(moments)) if due is not None]
    assert found in ([], [signal.SIGTERM]) or set(found[1:]) <= {signal.SIGKILL}
