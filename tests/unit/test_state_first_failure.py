"""Which failure was first, and who must wait for a word from elsewhere: by a clock that the tests move."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.state.first_failure import (
    SETTLE,
    TIMEOUT_SETTLE,
    FirstFailure,
    first_failure,
    has_timed_out,
    is_peer_loss,
    may_follow,
)
from worldsize.state.records import Failure, Reason

NOW = 50.0
RAISED = "rank 1 on node 0 (a) exited with code 1: ValueError: no"
LOST = "rank 0 on node 0 (a) exited with code 1: RuntimeError: Connection closed by peer [10.0.0.2]:4711"
ABORTED = "rank 2 on node 0 (a) was killed by signal 6 (SIGABRT)"
TIMED_OUT = "rank 3 on node 0 (a) exited with code 1: RuntimeError: Timed out waiting 3000ms for recv operation"
WATCHDOG = ABORTED + ": [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=17, OpType=ALLREDUCE)"


def failure(message: str = RAISED, at: float = 10.0, code: int = 1) -> Failure:
    return Failure(Reason.EXIT_CODE, message, 0, 0, code, at)


def test_the_earlier_one_is_first() -> None:
    early, late = failure(at=10.0), failure(at=11.0)
    assert first_failure([late, early]) == early and first_failure([]) is None


def test_who_lost_a_peer_comes_after_the_peer_whatever_the_clocks_say() -> None:
    found = [failure(LOST, at=1.0), failure(at=99.0)]
    assert all(first_failure(each) == found[1] for each in itertools.permutations(found))


@pytest.mark.parametrize(
    ("message", "lost", "waits"), [(RAISED, False, False), (LOST, True, True), (ABORTED, False, True)]
)
def test_who_may_follow_another(message: str, lost: bool, waits: bool) -> None:
    assert (is_peer_loss(failure(message)), may_follow(failure(message))) == (lost, waits)


def test_a_plain_failure_ends_the_run_at_once() -> None:
    first = FirstFailure()
    assert first.consider([failure()], NOW) == failure() and first.decide_at is None


def test_a_suspect_waits_and_gives_way_to_its_cause() -> None:
    first = FirstFailure()
    assert first.consider([failure(LOST)], NOW) is None and first.decide_at == NOW + SETTLE
    assert first.overdue(NOW + SETTLE / 2) is None
    assert first.consider([failure(at=12.0)], NOW + SETTLE / 2) == failure(at=12.0)


def test_a_suspect_without_a_cause_is_the_failure() -> None:
    first = FirstFailure()
    first.consider([failure(ABORTED)], NOW)
    assert first.overdue(NOW + SETTLE) == failure(ABORTED)


def test_a_later_suspect_gets_no_time_of_its_own() -> None:
    first = FirstFailure()
    first.consider([failure(LOST)], NOW)
    first.consider([failure(LOST, at=9.0)], NOW + SETTLE / 2)
    assert first.decide_at == NOW + SETTLE and first.overdue(NOW + SETTLE) == failure(LOST, at=9.0)


@pytest.mark.parametrize("code", [130, 143])
def test_while_a_cancel_is_possible_no_other_failure_ends_the_run(code: int) -> None:
    """A scheduler signals all processes of a step in any order, and a rank answers with any code."""
    first = FirstFailure()
    assert first.consider([failure(at=10.0, code=code)], NOW) is None
    assert first.consider([failure(at=11.0, code=7)], NOW + SETTLE / 2) is None
    assert first.overdue(NOW + SETTLE) == failure(at=10.0, code=code)


@pytest.mark.parametrize("message", [TIMED_OUT, WATCHDOG])
def test_who_waited_in_a_collective_call_gives_the_others_time_to_say_so(message: str) -> None:
    """They wait out the same limit, each from when it came to the call."""
    first = FirstFailure()
    assert has_timed_out(failure(message)) and first.consider([failure(message)], NOW) is None
    assert first.consider([failure(TIMED_OUT, at=11.0)], NOW + 1) is None
    assert first.consider([failure(LOST, at=11.5)], NOW + 2) is None
    assert first.overdue(NOW + TIMEOUT_SETTLE - 0.01) is None
    assert first.overdue(NOW + TIMEOUT_SETTLE) == failure(message)


def test_whose_peer_timed_out_waits_with_it_from_the_first_of_the_two_on() -> None:
    first = FirstFailure()
    first.consider([failure(LOST, at=9.0)], NOW)
    assert first.consider([failure(TIMED_OUT)], NOW + SETTLE / 2) is None
    assert first.decide_at == NOW + TIMEOUT_SETTLE and first.overdue(first.decide_at) == failure(TIMED_OUT)


def test_a_plain_failure_ends_the_wait_for_others_that_timed_out() -> None:
    first = FirstFailure()
    first.consider([failure(TIMED_OUT)], NOW)
    assert first.consider([failure(at=12.0)], NOW + 1) == failure(TIMED_OUT)


@pytest.mark.parametrize("message", [RAISED, LOST, ABORTED, "x: TimeoutError: the data set did not answer"])
def test_no_other_failure_counts_as_a_wait_in_a_collective_call(message: str) -> None:
    first = FirstFailure()
    assert not has_timed_out(failure(message))
    first.consider([failure(message)], NOW)
    assert first.decide_at in (None, NOW + SETTLE)


def test_nothing_is_pending_once_the_end_has_begun() -> None:
    first = FirstFailure()
    first.consider([failure(LOST)], NOW)
    assert first.drop() == failure(LOST) and first.drop() is None
    assert first.decide_at is None and first.overdue(NOW + 10 * SETTLE) is None


messages = st.sampled_from([RAISED, LOST, ABORTED, TIMED_OUT])
failures = st.builds(failure, messages, st.floats(0, 100), st.sampled_from([1, 130, 143]))


@given(st.lists(st.lists(failures, max_size=3), min_size=1, max_size=5))
def test_whatever_comes_in_whichever_order_the_first_of_all_is_told(batches: list[list[Failure]]) -> None:
    """Unless one was plain, and ended the run before the rest came."""
    first = FirstFailure()
    known: list[Failure] = []
    for batch in batches:
        known += batch
        told = first.consider(batch, NOW)
        if told is not None:
            assert told == first_failure(known)
            return
    assert first.overdue(NOW + TIMEOUT_SETTLE) == (first_failure(known) if known else None)
