"""When a run is over with its leaders, by a clock that the tests move."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.agent.control.solo_peers import LeaderTracker
from worldsize.plan.plan import Plan, node_major_layout

GRACE = 30.0


def tracker(
    leaders: tuple[int, ...], roles: str, lingering: tuple[str, ...] = ("worker", "evaluator")
) -> LeaderTracker:
    """Of ranks with these `roles`, on two nodes."""
    nodes = node_major_layout(2, len(roles.split()) // 2)
    names = iter(roles.split())
    nodes = tuple(node._replace(ranks=tuple(rank._replace(role=next(names)) for rank in node.ranks)) for node in nodes)
    plan = Plan("r", "t", "local", 1.0, 0, nodes, ("true",), {}, grace=GRACE, leaders=leaders, lingering=lingering)
    return LeaderTracker(plan)


def test_the_chiefs_end_is_the_runs() -> None:
    found = tracker((0,), "chief worker ps worker", lingering=())
    assert found.complete_at is None
    found.record_ended([1, 3], 10.0)
    assert found.complete_at is None
    found.record_ended([0], 20.0)
    assert found.complete_at == 20.0, "nobody lingers: parameter servers and workers would wait for ever"


def test_all_leaders_are_waited_for() -> None:
    found = tracker((0, 1, 2), "chief worker worker ps", lingering=())
    for now, rank in ((1.0, 2), (2.0, 0)):
        found.record_ended([rank], now)
        assert found.complete_at is None
    found.record_ended([1], 3.0)
    assert found.complete_at == 3.0


def test_who_lingers_has_the_grace_to_end() -> None:
    found = tracker((0,), "worker worker ps worker")
    found.record_ended([0], 100.0)
    assert found.complete_at == 100.0 + GRACE


def test_each_end_of_one_that_lingers_leaves_the_others_the_time_that_they_had() -> None:
    found = tracker((0,), "worker worker ps worker")
    found.record_ended([0], 100.0)
    found.record_ended([1], 120.0)
    assert found.complete_at == 100.0 + GRACE


def test_the_run_is_over_once_the_last_of_those_has_ended() -> None:
    found = tracker((0,), "worker worker ps worker")
    found.record_ended([0], 100.0)
    found.record_ended([1, 3], 105.0)
    assert found.complete_at == 105.0


def test_who_lingers_may_end_before_the_leader() -> None:
    found = tracker((0,), "worker worker ps worker")
    found.record_ended([1, 3], 90.0)
    found.record_ended([0], 100.0)
    assert found.complete_at == 100.0


def test_a_leader_does_not_linger_itself() -> None:
    found = tracker((0, 1), "worker worker worker evaluator", lingering=("evaluator",))
    found.record_ended([0, 1], 100.0)
    assert found.complete_at == 100.0 + GRACE, "rank 3 evaluates"
    found.record_ended([3], 101.0)
    assert found.complete_at == 101.0, "rank 2, which neither leads nor lingers, is not waited for"


@pytest.mark.parametrize("ranks", [[], [2], [1, 2, 3]])
def test_nothing_is_over_with_others(ranks: list[int]) -> None:
    found = tracker((0,), "worker worker ps worker")
    found.record_ended(ranks, 50.0)
    assert found.complete_at is None


@given(st.permutations(range(4)), st.lists(st.floats(0.1, 100), min_size=4, max_size=4))
def test_in_whatever_order_they_end(order: list[int], pauses: list[float]) -> None:
    """Over at the later of the leader's end and the last lingering one's, and never later than the grace allows."""
    found, ended, now = tracker((0,), "worker worker ps worker"), dict.fromkeys(range(4), 0.0), 1.0
    for rank, pause in zip(order, pauses, strict=True):
        now += pause
        ended[rank] = now
        found.record_ended([rank], now)
        lingers = any(ended[each] == 0.0 for each in (1, 3))
        if not ended[0]:
            assert found.complete_at is None
        elif lingers:
            assert found.complete_at == ended[0] + GRACE
        elif rank in (0, 1, 3):
            assert found.complete_at == now
