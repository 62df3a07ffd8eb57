"""Which agents have been stopped for too long, by a clock that the tests move; the processes are a set of numbers."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.agent.supervision.deadlines import StoppedAgents

SILENCE = 3.0


class Node:
    """`stopped`: the processes that are."""

    def __init__(self) -> None:
        self.stopped: set[int] = set()
        self.agents = StoppedAgents(SILENCE)

    def stop(self, now: float, *pids: int) -> None:
        self.stopped.update(pids)
        self.agents.record(pids, now)

    def overdue(self, now: float) -> list[int]:
        return self.agents.overdue(now, self.stopped.__contains__)


def test_one_that_stays_stopped_is_overdue_after_the_silence_and_no_sooner() -> None:
    node = Node()
    node.stop(10.0, 7)
    assert [node.overdue(now) for now in (10.0, 11.0, 13.0, 13.1)] == [[], [], [], [7]]


def test_it_is_ended_again_until_it_is_gone() -> None:
    node = Node()
    node.stop(10.0, 7)
    assert [node.overdue(now) for now in (14.0, 15.0)] == [[7], [7]]
    node.stopped.clear()
    assert node.overdue(16.0) == []


def test_who_went_on_in_time_is_forgotten() -> None:
    node = Node()
    node.stop(10.0, 7)
    node.stopped.clear()
    assert node.overdue(12.0) == []
    node.stopped.add(7)
    assert node.overdue(20.0) == [], "that it is stopped again has not been heard of"
    node.stop(20.0, 7)
    assert [node.overdue(now) for now in (23.0, 23.5)] == [[], [7]]


def test_who_is_stopped_anew_has_all_the_time_again() -> None:
    node = Node()
    node.stop(10.0, 7)
    node.stop(12.0, 7)
    assert [node.overdue(now) for now in (14.0, 15.1)] == [[], [7]]


def test_each_agent_has_its_own_time() -> None:
    node = Node()
    node.stop(10.0, 7, 8)
    node.stop(12.0, 9)
    assert [sorted(node.overdue(now)) for now in (13.5, 15.5)] == [[7, 8], [7, 8, 9]]


@given(st.lists(st.tuples(st.floats(0.1, 10), st.sampled_from(["stop", "go on", "look"]), st.integers(1, 3))))
def test_nobody_is_overdue_who_has_not_been_stopped_for_so_long(steps: Iterable[tuple[float, str, int]]) -> None:
    node, now = Node(), 0.0
    since: dict[int, float] = {}
    for pause, what, pid in steps:
        now += pause
        if what == "stop":
            node.stop(now, pid)
            since[pid] = now
        elif what == "go on":
            node.stopped.discard(pid)
        else:
            assert all(each in node.stopped and now - since[each] > SILENCE for each in node.overdue(now))


@pytest.mark.parametrize("now", [0.0, 1e9])
def test_nobody_is_overdue_at_first(now: float) -> None:
    assert Node().overdue(now) == []
