"""Why and when one node's ranks end, by a clock that the tests move and ranks that answer as they are told to."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.agent.control.solo_peers import LeaderTracker, Peers
from worldsize.agent.outcome import verdict
from worldsize.agent.outcome.verdict import Verdict
from worldsize.agent.supervision.deadlines import seconds_until_due
from worldsize.agent.supervision.run_end import LATE, LEFTOVER_PATIENCE, RunEnd
from worldsize.common.termination import LEFTOVER_GRACE
from worldsize.plan.rank_variables import Host
from worldsize.state.first_failure import SETTLE, TIMEOUT_SETTLE
from worldsize.state.records import Failure, Reason

GRACE = 10.0
CANCEL = Verdict(verdict.CANCEL, None)
DEAF = None
TICK = 1.0
QUICK = 0.02


class ModelRanks:
    """`answers`: seconds in which each rank ends once it is sent TERM; DEAF: only KILL ends it. `leftovers`: the same
    of what the ranks have started. `sent`: the signals, and when."""

    def __init__(self, answers: tuple[float | None, ...], leftovers: tuple[float | None, ...]) -> None:
        self.now = 100.0
        self.sent: list[tuple[str, float]] = []
        self.alive = [[answer, None] for answer in answers]
        self.left = [[answer, None] for answer in leftovers]

    def __bool__(self) -> bool:
        self.alive = [rank for rank in self.alive if rank[1] is None or rank[1] > self.now]
        return bool(self.alive)

    def terminate(self) -> None:
        self.sent.append(("TERM", self.now))
        _tell(self.alive, self.now)

    def kill(self) -> None:
        self.sent.append(("KILL", self.now))
        for each in self.alive:
            each[1] = self.now

    def end_leftovers(self, now: float, at_once: bool, patience: float) -> bool:
        self.left = [] if at_once else [each for each in self.left if each[1] is None or each[1] > now]
        if self.left and now >= self.left_since(now) + patience:
            _tell(self.left, now)
        return not self.left

    def left_since(self, now: float) -> float:
        self._since = getattr(self, "_since", now)
        return self._since

    def next_end(self) -> float:
        """When one of them ends next, which wakes a supervisor."""
        return min((each[1] for each in (*self.alive, *self.left) if each[1] is not None), default=math.inf)


def _tell(those: list[list[float | None]], now: float) -> None:
    for each in those:
        if each[0] is not DEAF and each[1] is None:
            each[1] = now + each[0]


class RecordingPeers(Peers):
    """A node among others, which are gone once `others_done`; keeps what it is told to send."""

    def __init__(self) -> None:
        super().__init__(Host("n", 1))
        self.verdicts: list[Verdict] = []
        self.done = 0
        self.others_done = True

    def send_verdict(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)

    def report_done(self) -> None:
        self.done += 1

    def may_end(self, late: bool) -> bool:
        return late or self.others_done


class Records:
    """What is written of the node."""

    def __init__(self) -> None:
        self.stopping: list[Any] = []
        self.replaced = False
        self.cancel_requested = False

    def write_event(self, kind: str, **fields: Any) -> None:
        assert kind == "stopping"
        self.stopping.append(fields["why"])

    def is_replaced(self) -> bool:
        return self.replaced

    def is_cancel_requested(self) -> bool:
        return self.cancel_requested


class Node:
    """One node whose ranks have been started at 100.0 s."""

    def __init__(
        self,
        *answers: float | None,
        leftovers: tuple[float | None, ...] = (),
        grace: float = GRACE,
        launched: bool = True,
    ) -> None:
        self.ranks, self.peers, self.records = ModelRanks(answers, leftovers), RecordingPeers(), Records()
        self.end = RunEnd(grace, self.ranks, self.peers, self.records)  # type: ignore[arg-type]
        self.launched = launched

    @property
    def now(self) -> float:
        return self.ranks.now

    def fails(self, *failures: Failure) -> None:
        """As many ranks end, and say so."""
        del self.ranks.alive[: len(failures)]
        self.end.weigh_failures(failures, self.now)

    def succeeds(self) -> None:
        self.ranks.alive = []

    def runs(self, seconds: float) -> None:
        """As the supervisor does: wake when something is due, for so many seconds or until the node may leave."""
        until = self.now + seconds
        while True:
            if self.launched or self.end.verdict is not None:
                self.end.end_node(self.now)
            for part in self.end.parts:
                part.tick(self.now)
            if self.end.may_leave(self.now):
                return
            pause = QUICK if self.end.needs_quick_look(self.now) else seconds_until_due(self.end.parts, self.now, TICK)
            moment = min(self.now + pause, max(self.now, self.ranks.next_end()))
            if moment > until:
                self.ranks.now = until
                return
            self.ranks.now = moment

    @property
    def why(self) -> str | None:
        return self.end.verdict.why if self.end.verdict else None

    @property
    def code(self) -> int:
        assert self.end.verdict is not None
        return self.end.verdict.code


def failure(code: int = 1, message: str = "rank exited", time: float = 1.0) -> Failure:
    return Failure(Reason.EXIT_CODE, message, 0, 0, code, time)


def lost_peer(time: float = 1.0) -> Failure:
    return failure(message="ConnectionError: Connection closed by peer", time=time)


# one rank fails


def test_as_long_as_nothing_is_heard_ranks_are_left_alone() -> None:
    node = Node(1.0, DEAF)
    node.runs(1000.0)
    assert node.why is None and node.ranks.sent == [] and node.peers.verdicts == []


def test_one_failure_sends_term_to_all_others_at_once() -> None:
    node = Node(0.0, 1.0, 2.0)
    node.fails(failure(7))
    assert node.ranks.sent == [("TERM", 100.0)] and node.records.stopping == ["failure"] and node.code == 7
    assert [each.code for each in node.peers.verdicts] == [7]
    node.runs(60)
    assert node.ranks.sent == [("TERM", 100.0)], "all had ended within the grace"
    assert node.end.node_done and node.now == 102.0


def test_a_rank_that_ignores_term_is_killed_when_the_grace_is_over_and_not_before() -> None:
    node = Node(0.0, 1.0, DEAF)
    node.fails(failure())
    node.runs(60)
    assert node.ranks.sent == [("TERM", 100.0), ("KILL", 100.0 + GRACE)]


def test_no_grace_is_no_term() -> None:
    node = Node(0.0, 0.5, grace=0.0)
    node.fails(failure())
    assert node.ranks.sent == [("KILL", 100.0)]


def test_ranks_of_a_directory_that_has_been_replaced_get_no_grace() -> None:
    node = Node(0.0, 0.5)
    node.records.replaced = True
    node.end.decide(verdict.deleted_verdict("/run"), node.now)
    assert node.ranks.sent == [("KILL", 100.0)] and node.why == "deleted"


@pytest.mark.parametrize(("first", "second", "code"), [(1.0, 2.0, 7), (2.0, 1.0, 8)])
def test_of_two_failures_the_earlier_one_counts(first: float, second: float, code: int) -> None:
    node = Node(0.0, 0.0, 1.0)
    node.fails(failure(7, time=first), failure(8, time=second))
    assert node.code == code


def test_a_failure_that_is_heard_of_later_and_was_earlier_counts() -> None:
    node = Node(0.0, 0.0, 1.0)
    node.fails(failure(7, time=2.0))
    node.fails(failure(8, time=1.0))
    assert node.code == 8 and [each.code for each in node.peers.verdicts] == [7, 8]
    node.fails(failure(9, time=3.0))
    assert node.code == 8 and len(node.peers.verdicts) == 2 == len(node.records.stopping)


# which failure was first


def test_a_lost_peer_waits_for_the_peers_own_failure() -> None:
    node = Node(0.0, 0.0, 1.0)
    node.fails(lost_peer(time=1.0))
    assert node.why is None and node.ranks.sent == []
    node.runs(SETTLE - 0.01)
    node.fails(failure(7, time=2.0))
    assert node.code == 7 and node.ranks.sent == [("TERM", node.now)]


def test_a_lost_peer_of_which_nothing_else_is_heard_is_the_failure() -> None:
    node = Node(0.0, 1.0)
    node.fails(lost_peer())
    node.runs(SETTLE + 0.01)
    assert node.why == "failure" and node.ranks.sent == [("TERM", pytest.approx(100.0 + SETTLE))]


TIMED_OUT = "rank 0 on node 0 exited with code 1: RuntimeError: Timed out waiting 9ms for recv operation to complete"


def test_ranks_that_timed_out_are_waited_for() -> None:
    node = Node(0.0, 0.0, 1.0)
    node.fails(failure(1, TIMED_OUT, time=1.0))
    node.runs(TIMEOUT_SETTLE - 0.01)
    assert node.why is None and node.ranks.sent == []
    node.runs(0.02)
    assert node.why == "failure" and node.ranks.sent == [("TERM", pytest.approx(100.0 + TIMEOUT_SETTLE))]


def test_a_rank_that_timed_out_is_told_when_another_node_ends_the_run_for_a_lost_peer() -> None:
    node = Node(0.0, 0.0, 1.0)
    node.fails(failure(1, TIMED_OUT, time=1.0))
    node.end.decide(Verdict(verdict.FAILURE, lost_peer(time=2.0)), node.now)
    assert node.end.verdict is not None and node.end.verdict.failure == failure(1, TIMED_OUT, time=1.0)
    assert node.peers.verdicts[-1] == node.end.verdict


def test_nothing_is_told_of_it_when_the_run_was_cancelled() -> None:
    node = Node(0.0, 0.0, 1.0)
    node.fails(failure(1, TIMED_OUT, time=1.0))
    node.end.decide(CANCEL, node.now)
    assert node.why == "cancel" and node.end.verdict == CANCEL


def test_the_last_ranks_suspicion_is_settled_before_the_node_is_done() -> None:
    node = Node(0.0)
    node.fails(lost_peer())
    node.runs(SETTLE - 0.01)
    assert not node.end.node_done and node.why is None
    node.runs(60)
    assert node.end.node_done and node.why == "failure"


@pytest.mark.parametrize("code", [143, 130])
def test_a_rank_that_a_cancel_reached_first_is_no_failure(code: int) -> None:
    """A scheduler signals all processes of a step, in any order."""
    node = Node(0.0, 0.0, 0.0)
    node.fails(failure(code))
    node.runs(SETTLE / 2)
    node.end.decide(CANCEL, node.now)
    node.runs(60)
    assert (node.why, node.code, node.records.stopping) == ("cancel", 143, ["cancel"])


@pytest.mark.parametrize("answer", [failure(7), failure(1, "Connection reset by peer"), failure(134, "x (SIGABRT)")])
def test_nor_is_what_another_rank_answers_to_the_same_signal(answer: Failure) -> None:
    node = Node(0.0, 0.0, 0.0)
    node.fails(failure(143))
    node.runs(SETTLE / 2)
    node.fails(answer)
    assert node.why is None
    node.end.decide(CANCEL, node.now)
    assert node.why == "cancel"


def test_once_a_cancel_was_requested_any_answer_to_its_signal_waits_for_it() -> None:
    """The signal may reach a rank, which answers with a code of its own, before it reaches the agent."""
    node = Node(0.0, 0.0)
    node.records.cancel_requested = True
    node.fails(failure(1))
    assert node.why is None
    node.runs(SETTLE / 2)
    node.end.decide(CANCEL, node.now)
    node.runs(60)
    assert (node.why, node.code, node.records.stopping) == ("cancel", 143, ["cancel"])


def test_a_requested_cancel_that_does_not_come_leaves_the_failure() -> None:
    node = Node(0.0, 0.0)
    node.records.cancel_requested = True
    node.fails(failure(1))
    node.runs(SETTLE + 0.01)
    assert (node.why, node.code) == ("failure", 1)


@pytest.mark.parametrize("code", [143, 130])
def test_one_rank_that_was_signalled_alone_is_the_failure(code: int) -> None:
    node = Node(0.0, 1.0)
    node.fails(failure(code))
    node.runs(SETTLE + 0.01)
    assert (node.why, node.code) == ("failure", code)


def test_the_first_of_two_failures_counts_where_the_first_is_a_signal() -> None:
    node = Node(0.0, 0.0, 1.0)
    node.fails(failure(143, time=1.0))
    node.runs(SETTLE / 2)
    node.fails(failure(9, time=2.0))
    node.runs(SETTLE)
    assert (node.why, node.code) == ("failure", 143)


@pytest.mark.parametrize("code", [137, 139, 1, 77])
def test_a_failure_of_any_other_kind_does_not_wait(code: int) -> None:
    node = Node(0.0, 1.0)
    node.fails(failure(code))
    assert node.code == code and node.ranks.sent == [("TERM", 100.0)]


# cancel, the time limit, the head, the leaders


@pytest.mark.parametrize("answer", [failure(1), failure(77), failure(137), failure(143), lost_peer()])
def test_cancelled_whatever_the_ranks_answer(answer: Failure) -> None:
    node = Node(0.0, 0.0)
    node.end.decide(CANCEL, node.now)
    node.fails(answer)
    node.runs(60)
    assert (node.why, node.code, node.peers.verdicts) == ("cancel", 143, [CANCEL])
    assert node.end.node_done and node.now == 100.0, "what they say delays nothing"


def test_two_cancels_keep_the_grace() -> None:
    node = Node(DEAF)
    node.end.decide(CANCEL, node.now)
    node.runs(4.0)
    node.end.decide(CANCEL, node.now)
    node.runs(60)
    assert node.ranks.sent == [("TERM", 100.0), ("KILL", 100.0 + GRACE)]


def test_a_cancel_at_once_cuts_the_grace() -> None:
    node = Node(DEAF, grace=600.0)
    node.end.decide(CANCEL, node.now)
    node.runs(4.0)
    node.end.cut_grace(node.now)
    node.runs(1.0)
    assert node.ranks.sent == [("TERM", 100.0), ("KILL", 104.0)] and node.end.node_done


def test_the_time_limit_begins_when_it_is_started() -> None:
    node = Node(0.5, DEAF)
    node.runs(50.0)
    node.end.start_time_limit(30.0, node.now)
    node.runs(29.9)
    assert node.why is None
    node.runs(60.0)
    assert (node.why, node.code) == ("timeout", 124)
    assert node.ranks.sent == [("TERM", pytest.approx(180.0)), ("KILL", pytest.approx(180.0 + GRACE))]
    assert node.end.verdict is not None and node.end.verdict.failure is not None
    assert "30 s" in node.end.verdict.failure.message


@pytest.mark.parametrize("answer", [failure(1), failure(143), lost_peer()])
def test_what_ranks_answer_to_the_end_of_their_time_does_not_count(answer: Failure) -> None:
    node = Node(0.0, 0.0)
    node.end.start_time_limit(3.0, node.now)
    node.runs(3.1)
    node.fails(answer)
    node.runs(60)
    assert node.code == 124


def test_the_heads_verdict_is_adopted_and_not_sent_back() -> None:
    node = Node(0.0, 1.0)
    node.fails(failure(7, time=1.0))
    node.end.decide(Verdict(verdict.FAILURE, failure(9, time=5.0)), node.now, final=True)
    assert node.code == 9 and [each.code for each in node.peers.verdicts] == [7]
    assert node.ranks.sent == [("TERM", 100.0)]


def test_a_node_whose_ranks_were_never_started_ends_by_the_heads_verdict() -> None:
    node = Node(launched=False)
    node.runs(5.0)
    assert not node.end.node_done
    node.end.decide(CANCEL, node.now, final=True)
    node.runs(1.0)
    assert node.end.node_done and node.ranks.sent == []


class Leaders(LeaderTracker):
    """That were complete at a moment."""

    def __init__(self, complete_at: float) -> None:
        self.complete_at = complete_at


def test_a_run_whose_leaders_have_ended_is_complete() -> None:
    node = Node(1.0)
    node.peers.leader_tracker = Leaders(103.0)
    node.runs(2.9)
    assert node.why is None
    node.runs(60.0)
    assert (node.why, node.code) == ("complete", 0) and node.ranks.sent == [("TERM", pytest.approx(103.0))]


# what the ranks have left, and the farewell


def test_what_helpers_of_ranks_do_by_themselves_is_waited_for() -> None:
    node = Node(leftovers=(0.0,))
    node.runs(LEFTOVER_PATIENCE - 0.05)
    assert not node.end.node_done
    node.runs(1.0)
    assert node.end.node_done and node.why is None


@pytest.mark.parametrize("grace", [0.0, 2.0, 60.0])
def test_leftovers_of_a_success_that_ignore_term_are_killed(grace: float) -> None:
    node = Node(leftovers=(DEAF,), grace=grace)
    node.runs(120.0)
    longest = LEFTOVER_PATIENCE + min(grace, LEFTOVER_GRACE)
    assert node.end.node_done and longest <= node.now - 100.0 < longest + 0.1
    assert node.why is None, "they speak against nothing"


def test_leftovers_of_a_run_that_is_ended_have_its_grace() -> None:
    node = Node(0.0, leftovers=(DEAF,))
    node.end.decide(CANCEL, node.now)
    node.runs(GRACE - 0.1)
    assert not node.end.node_done
    node.runs(1.0)
    assert node.end.node_done


def test_leftovers_of_a_run_that_is_ended_are_sent_term_at_once() -> None:
    node = Node(0.0, leftovers=(0.5,))
    node.end.decide(CANCEL, node.now)
    node.runs(60.0)
    assert node.end.node_done and 100.5 <= node.now < 100.6


def test_a_success_waits_for_the_other_nodes_as_long_as_they_take() -> None:
    node = Node()
    node.peers.others_done = False
    node.runs(1000.0)
    assert node.end.node_done and node.peers.done == 1 and not node.end.may_leave(node.now)
    node.peers.others_done = True
    assert node.end.may_leave(node.now)


def test_after_a_failure_the_others_are_waited_for_until_their_grace_is_over() -> None:
    node = Node(0.0)
    node.fails(failure())
    node.peers.others_done = False
    node.runs(GRACE + LATE - 0.1)
    assert node.end.node_done and not node.end.may_leave(node.now)
    node.runs(60.0)
    assert node.end.may_leave(node.now) and node.now - 100.0 < GRACE + LATE + 1.1


answers = st.none() | st.floats(0.0, 30.0)


@given(
    st.lists(answers, min_size=1, max_size=5),
    st.lists(answers, max_size=3),
    st.floats(0.0, 20.0),
    st.sampled_from([failure(7), failure(143), lost_peer()]),
    st.lists(st.tuples(st.floats(0.0, 20.0), st.booleans()), max_size=3),
)
def test_whatever_happens_nothing_outlives_the_grace(
    ranks: list[float | None],
    leftovers: list[float | None],
    grace: float,
    first: Failure,
    cancels: list[tuple[float, bool]],
) -> None:
    """TERM once at the most, and never after KILL."""
    node = Node(*ranks, leftovers=tuple(leftovers), grace=grace)
    node.fails(first)
    for wait, at_once in cancels:
        node.runs(wait)
        node.end.decide(CANCEL, node.now)
        if at_once:
            node.end.cut_grace(node.now)
    node.runs(200.0)
    assert node.end.node_done and node.peers.done == 1
    signals = [each for each, _ in node.ranks.sent]
    assert signals.count("TERM") <= 1 and signals == sorted(signals, reverse=True)
    assert node.now - 100.0 <= SETTLE + grace + QUICK + 0.001 or node.now - 100.0 <= sum(wait for wait, _ in cancels)
