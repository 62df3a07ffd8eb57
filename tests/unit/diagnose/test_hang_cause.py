"""Runs that stood still: when that is the cause, when it stands beside another one, and when it is not spoken of."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import pytest

from worldsize.diagnose.cause_record import ESTABLISHED, SUPPORTED, UNKNOWN
from worldsize.diagnose.evidence import Line, RaisedException, RankEnd, RunEvidence
from worldsize.diagnose.explanation import Explanation, explain
from worldsize.diagnose.reasons import HANG_HINTS
from worldsize.state.hang import Hang, stuck_text
from worldsize.state.records import Failure, Reason, RunState
from worldsize.state.run_state import CANCELLED_MESSAGE

SENTENCE = "rank 3 (node 1) has not entered all_reduce #288; 3 others wait there; it is in load, train.py:41"
PLACE = ("train.py", 41, "load")
FOUND = Hang(ESTABLISHED, SENTENCE, "H1", (3,), 100.0, PLACE, ("stacks", "recorder"), (("ras", "no answer"),))
NOBODY = "no rank differs from the others: all are equal"
UNNAMED = Hang(UNKNOWN, NOBODY, None, (), 100.0, None, (), (("stacks", "all are equal"),), ("ranks 0-3: are at a.py",))
TIMED_OUT = "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 60000ms for recv operation to complete"
PEER = "RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.7]:22453"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 39 GiB"
BARRIER = "RuntimeError: Rank %d failed to pass monitoredBarrier in 60000 ms"
ALIVE = [RankEnd(rank, rank // 2) for rank in range(4)]


def raised(rank: int, text: str, at: float) -> RankEnd:
    return RankEnd(rank, rank // 2, 1, at, False, RaisedException(text, at, "train.py", 9))


def stopped(rank: int, at: float = 170.0) -> RankEnd:
    return RankEnd(rank, rank // 2, 143, at, True)


def evidence(
    ends: Sequence[RankEnd],
    hang: Hang | None = FOUND,
    state: str = RunState.FAILED,
    reason: str | None = Reason.EXIT_CODE,
    message: str = "it failed",
    first: int | None = None,
    lines: Mapping[int, Sequence[str]] = {},
) -> RunEvidence:
    failure = None
    if first is not None:
        end = ends[first]
        failure = Failure(reason or "", message, end.node, first, end.code or 1, end.ended or 0.0)
    said = {rank: [Line(text, "log", None, 90.0) for text in texts] for rank, texts in lines.items()}
    return RunEvidence(0, state, reason, message, failure, ends, said, {}, {}, hang=hang)


def told(there: RunEvidence) -> Explanation:
    found = explain(there)
    assert found is not None
    return found


def timed_out(hang: Hang | None = FOUND, **more: object) -> RunEvidence:
    """Of a run that ended as ranks 0 to 2 had waited for 60 s."""
    ends = [*(raised(rank, TIMED_OUT, 160.0 + rank) for rank in range(3)), stopped(3)]
    return evidence(ends, hang, first=0, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.STOPPING])
def test_a_run_that_stands_still_has_a_cause_while_it_runs(state: str) -> None:
    found = told(evidence(ALIVE, state=state, reason=None))
    cause = found.cause
    assert (cause.id, cause.standing, cause.sentence, cause.ranks) == ("hang", ESTABLISHED, SENTENCE, (3,))
    assert (cause.node, cause.time) == (1, 100.0) and found.documentation == "causes/ends/hang.md"
    assert cause.evidence == (
        "named by the stacks and the Flight Recorder",
        "no rank is named by NCCL RAS: no answer",
    )
    assert cause.hint.startswith(HANG_HINTS["H1"])
    assert "worldsize stacks RUN" in cause.hint and "worldsize cancel RUN" in cause.hint
    (link,) = found.chain
    assert (link.role, link.ranks, link.file, link.line, link.text) == ("root", (3,), "train.py", 41, SENTENCE)


@pytest.mark.parametrize(
    ("state", "hang"),
    [
        (RunState.RUNNING, None),
        (RunState.RUNNING, FOUND._replace(resumed=140.0)),
        (RunState.QUEUED, FOUND),
        (RunState.SUCCEEDED, FOUND),
    ],
)
def test_a_run_that_goes_on_waits_or_has_succeeded_has_none(state: str, hang: Hang | None) -> None:
    assert explain(evidence(ALIVE, hang, state, None)) is None


def test_where_nobody_is_named_the_groups_are_shown_and_who_was_missing() -> None:
    groups = tuple("rank %d: is at a.py:%d" % (rank, rank) for rank in range(9))
    found = told(evidence(ALIVE, UNNAMED._replace(groups=groups), RunState.RUNNING, None))
    assert (found.cause.id, found.cause.standing, found.cause.ranks) == ("hang", UNKNOWN, ())
    assert found.cause.evidence == (
        "no rank is named by the stacks: all are equal",
        *groups[:5],
        "and 4 more groups of ranks",
    )
    assert (found.chain[0].role, found.chain[0].node) == ("root", 0)


@pytest.mark.parametrize("kind", ["H1", "H2", "H3"])
def test_what_to_do_depends_on_how_the_rank_keeps_the_others(kind: str) -> None:
    found = told(evidence(ALIVE, FOUND._replace(kind=kind), RunState.RUNNING, None))
    assert found.cause.hint.startswith(HANG_HINTS[kind])


def test_the_watch_ended_it() -> None:
    message = stuck_text(300.0, SENTENCE)
    there = evidence([stopped(rank) for rank in range(4)], reason=Reason.HANG, message=message)
    found = told(there)
    assert (found.cause.id, found.cause.standing, found.cause.ranks) == ("hang", ESTABLISHED, (3,))
    assert "worldsize stacks" not in found.cause.hint
    assert [(link.role, link.ranks) for link in found.chain] == [("root", (3,)), ("cascade", (0, 1, 2))]
    without = told(there._replace(hang=None)).cause
    assert (without.id, without.standing, without.sentence) == ("hang", UNKNOWN, message)


def test_ranks_that_wait_for_one_that_has_ended_keep_their_cause() -> None:
    message = "rank 3 ended with code 0, and ranks 0-2 still waited: no output, CPU time or I/O for 300 s"
    found = told(evidence([*map(stopped, range(3)), RankEnd(3, 1, 0, 50.0)], reason=Reason.HANG, message=message))
    assert (found.cause.id, found.cause.sentence) == ("early-exit", message)
    assert found.chain[0].role == "confirmation" and found.chain[0].text == SENTENCE


@pytest.mark.parametrize(
    ("state", "reason", "message", "cause"),
    [
        (RunState.CANCELLED, Reason.CANCELLED_BY_USER, CANCELLED_MESSAGE, "cancelled"),
        (RunState.FAILED, Reason.TIME_LIMIT, "its limit of 600 s was reached", "time-limit"),
        (RunState.FAILED, Reason.PREEMPTED, "preempted", "preempted"),
    ],
)
def test_whoever_ended_it_is_the_cause_and_the_hang_stands_beside_it(
    state: str, reason: str, message: str, cause: str
) -> None:
    there = evidence(list(map(stopped, range(4))), state=state, reason=reason, message=message)
    found = told(there)
    since = time.strftime("%H:%M:%S", time.localtime(100.0))
    assert (found.cause.id, found.cause.standing, found.cause.ranks) == (cause, ESTABLISHED, ())
    assert found.cause.sentence.endswith("; the run had been idle since %s: %s" % (since, SENTENCE))
    assert (found.chain[0].role, found.chain[0].text) == ("root", SENTENCE)
    unnamed = told(there._replace(hang=UNNAMED))
    assert unnamed.cause.sentence.endswith(NOBODY) and unnamed.chain[0].role == "confirmation"
    resumed = told(there._replace(hang=FOUND._replace(resumed=120.0)))
    assert "been idle" not in resumed.cause.sentence and SENTENCE not in [link.text for link in resumed.chain]


def test_ranks_that_waited_until_a_time_out_follow_the_hang() -> None:
    found = told(timed_out())
    assert (found.cause.id, found.cause.standing, found.cause.ranks) == ("hang", ESTABLISHED, (3,))
    assert found.cause.evidence[0] == TIMED_OUT
    assert [(link.role, link.ranks) for link in found.chain] == [("root", (3,)), ("cascade", (0, 1, 2))]


def test_what_ranks_say_of_their_time_out_is_no_sign_that_the_run_goes_on() -> None:
    assert told(timed_out(FOUND._replace(resumed=161.0))).cause.id == "hang"
    before = told(timed_out(FOUND._replace(resumed=130.0)))
    assert before.cause.id == "collective-timeout" and SENTENCE not in [link.text for link in before.chain]


def test_a_hang_of_which_nobody_is_named_is_no_cause_of_a_time_out() -> None:
    found = told(timed_out(UNNAMED))
    assert (found.cause.id, found.cause.ranks) == ("collective-timeout", (3,))
    assert ("confirmation", NOBODY) in [(link.role, link.text) for link in found.chain]


def test_a_barrier_that_names_another_rank_does_not_agree() -> None:
    for named, cause in ((3, "hang"), (2, "barrier-missed")):
        ends = [raised(0, BARRIER % named, 160.0), stopped(1), stopped(2), stopped(3)]
        assert told(evidence(ends, first=0)).cause.id == cause


def test_a_rank_that_waited_too_long_itself_had_entered() -> None:
    both = FOUND._replace(ranks=(2, 3))
    assert told(timed_out(both)).cause.id == "collective-timeout"
    assert told(timed_out(both._replace(kind="H2"))).cause.id == "hang"


def test_the_watchdog_of_nccl_names_ranks_by_their_calls() -> None:
    line = "[Rank %d] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=%d, OpType=%s, Timeout(ms)=600000)"
    for odd, cause in ((3, "hang"), (0, "collective-timeout")):
        lines = {rank: [line % (rank, 9 if rank == odd else 17, "ALLREDUCE")] for rank in range(4)}
        ends = [RankEnd(rank, rank // 2, 134, 160.0) for rank in range(4)]
        there = evidence(ends, FOUND._replace(kind="H2"), first=0, lines=lines, reason=Reason.SIGNAL)
        assert told(there).cause.id == cause, odd


def test_what_the_named_rank_says_of_its_own_failure_is_more() -> None:
    caught = told(timed_out(lines={3: ["caught " + OOM]})).cause
    assert (caught.id, caught.standing, caught.ranks) == ("gpu-memory", SUPPORTED, (3,))
    other = told(timed_out(lines={1: ["caught " + OOM]})).cause
    assert other.id == "hang"


def test_an_exception_after_a_silence_is_the_cause_and_the_silence_confirms_it() -> None:
    found = told(
        evidence([raised(0, PEER, 160.2), stopped(1), stopped(2), raised(3, "OSError: timed out", 160.0)], first=3)
    )
    assert (found.cause.id, found.cause.ranks) == ("exception", (3,))
    assert ("confirmation", SENTENCE) in [(link.role, link.text) for link in found.chain]


def test_named_ranks_that_have_ended_with_0_left_early() -> None:
    ends = [*(raised(rank, TIMED_OUT, 160.0) for rank in range(3)), RankEnd(3, 1, 0, 90.0)]
    assert told(evidence(ends, first=0)).cause.id == "early-exit"
