"""The fold: every combination of facts that matters as a table, and its promises as properties."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import cases

from worldsize.common.json_values import tuple_of
from worldsize.state.records import ExitRecord, Failure, Observation, RankExit, Reason, RunState, Status
from worldsize.state.run_state import AttemptFacts, agreed_failure, fold

QUEUED, RUNNING, UNKNOWN = Observation("queued"), Observation("running"), Observation("unknown")
ENDED, ABSENT = Observation("ended"), Observation("absent")
ENDING = Observation("running", message="its nodes are being cleaned up", ending=True)
KILLS = (Reason.OUT_OF_MEMORY, Reason.TIME_LIMIT, Reason.PREEMPTED, Reason.NODE_FAILURE)


def failure(reason: str = Reason.EXIT_CODE, code: int = 3, time: float = 10.0, rank: int | None = 1) -> Failure:
    return Failure(reason, "rank 1 exited with code %d" % code, 0, rank, code, time)


def record(
    node: int = 0, stop: str | None = None, failed: Failure | None = None, code: int | None = None
) -> ExitRecord:
    own = code if code is not None else failed.code if failed else 143 if stop else 0
    return ExitRecord(node, "host", 0, 5.0 + node, 20.0 + node, (RankExit(node, own, 5.0, 20.0),), stop, failed, own)


OK = (record(0), record(1))
FAILED = tuple(record(node, "failure", failure()) for node in (0, 1))
SIGNALLED = tuple(record(node, "failure", failure(Reason.SIGNAL, 137)) for node in (0, 1))
TERMED = tuple(record(node, "failure", failure(Reason.SIGNAL, 143)) for node in (0, 1))
STOPPED = tuple(record(node, "cancel") for node in (0, 1))
LOST_CONDUCTOR = tuple(record(node, "conductor-lost", failure(Reason.NODE_FAILURE, 1, rank=None)) for node in (0, 1))


def facts(exits=(), observation=RUNNING, **changes) -> AttemptFacts:
    known = AttemptFacts(
        nodes=2,
        prepared=True,
        submitted=True,
        rejected=None,
        cancelled=False,
        launched=True,
        exits=tuple(exits),
        observation=observation,
        settled=False,
    )
    return known._replace(**changes)


def killed(reason: str, code: int | None = None) -> Observation:
    return Observation("ended", reason, code, "the scheduler says %s" % reason)


TABLE = [
    # on the way
    ("nothing yet", facts(submitted=False, prepared=False, launched=False, observation=ABSENT), "CREATED", None, None),
    ("prepared", facts(submitted=False, launched=False, observation=ABSENT), "PREPARING", None, None),
    (
        "cancelled beside us",
        facts(observation=killed(Reason.CANCELLED_BY_USER, 143), settled=True),
        "CANCELLED",
        Reason.CANCELLED_BY_USER,
        130,
    ),
    (
        "cancelled beside us, and a rank died of it first",
        facts(SIGNALLED, killed(Reason.CANCELLED_BY_USER, 143)),
        "CANCELLED",
        Reason.CANCELLED_BY_USER,
        130,
    ),
    (
        "cancelled beside us, after a rank had failed",
        facts(FAILED, killed(Reason.CANCELLED_BY_USER, 143)),
        "FAILED",
        Reason.EXIT_CODE,
        3,
    ),
    ("queued", facts(observation=QUEUED, launched=False), "QUEUED", None, None),
    (
        "queued with a reason",
        facts(observation=Observation("queued", "Priority"), launched=False),
        "QUEUED",
        "Priority",
        None,
    ),
    ("agents are coming up", facts(launched=False), "STARTING", None, None),
    ("ranks run", facts(), "RUNNING", None, None),
    ("one node has ended", facts(OK[:1]), "RUNNING", None, None),
    ("one node has ended, the native job too, just now", facts(OK[:1], ENDED), "RUNNING", None, None),
    ("no longer there, just now", facts((), ABSENT), "RUNNING", None, None),
    ("the scheduler cannot be asked", facts((), UNKNOWN), "RUNNING", None, None),
    ("the scheduler cannot be asked for long", facts((), UNKNOWN, settled=True), "RUNNING", None, None),
    ("cancel was asked for", facts(cancelled=True), "STOPPING", None, None),
    ("one node stopped for a failure", facts(FAILED[:1]), "STOPPING", None, None),
    (
        "submitted, cancel asked for, still queued",
        facts(observation=QUEUED, cancelled=True, launched=False),
        "QUEUED",
        None,
        None,
    ),
    # refused
    ("refused", facts(submitted=False, rejected=failure(Reason.SUBMIT_REJECTED, 1)), "FAILED", "SUBMIT_REJECTED", 1),
    ("interrupted while submitted", facts(submitted=False, settled=True, observation=ABSENT), "LOST", None, 1),
    (
        "cancelled before it was submitted",
        facts(submitted=False, settled=True, cancelled=True, observation=ABSENT),
        "CANCELLED",
        "CANCELLED_BY_USER",
        130,
    ),
    # every node has left its record
    ("all well", facts(OK), "SUCCEEDED", None, 0),
    ("all well, native job ended", facts(OK, ENDED, settled=True), "SUCCEEDED", None, 0),
    ("all well, native job forgotten", facts(OK, ABSENT, settled=True), "SUCCEEDED", None, 0),
    ("all well before the node died", facts(OK, killed(Reason.NODE_FAILURE), settled=True), "SUCCEEDED", None, 0),
    ("all well, then cancelled", facts(OK, ENDED, cancelled=True), "SUCCEEDED", None, 0),
    ("a rank failed", facts(FAILED), "FAILED", "EXIT_CODE", 3),
    ("a rank failed, then cancelled", facts(FAILED, ENDED, cancelled=True), "FAILED", "EXIT_CODE", 3),
    ("one node failed, the other was well", facts((OK[0], FAILED[1])), "FAILED", "EXIT_CODE", 3),
    ("a rank died by a signal: the scheduler may know why", facts(SIGNALLED), "STOPPING", None, None),
    ("… and knows nothing", facts(SIGNALLED, ENDED), "FAILED", "SIGNAL", 137),
    ("… and cannot be asked for long", facts(SIGNALLED, UNKNOWN, settled=True), "FAILED", "SIGNAL", 137),
    ("… and cleans up for long", facts(SIGNALLED, ENDING, settled=True), "FAILED", "SIGNAL", 137),
    ("… and says out of memory", facts(SIGNALLED, killed(Reason.OUT_OF_MEMORY)), "FAILED", "OUT_OF_MEMORY", 137),
    (
        "a code without a failure is none the less no success",
        facts((record(0, code=2), OK[1])),
        "FAILED",
        "EXIT_CODE",
        2,
    ),
    ("cancelled", facts(STOPPED, ENDED, cancelled=True), "CANCELLED", "CANCELLED_BY_USER", 130),
    (
        "cancelled, and a rank died of it before its agent heard",
        facts(TERMED, ABSENT, cancelled=True),
        "CANCELLED",
        "CANCELLED_BY_USER",
        130,
    ),
    (
        "cancelled, and a line of the setup died of it before its agent heard",
        facts((STOPPED[0], record(1, "failure", failure(Reason.ENVIRONMENT, 143))), ENDED, cancelled=True),
        "CANCELLED",
        "CANCELLED_BY_USER",
        130,
    ),
    (
        "the setup failed, then cancelled",
        facts((STOPPED[0], record(1, "failure", failure(Reason.ENVIRONMENT, 1))), ENDED, cancelled=True),
        "FAILED",
        "ENVIRONMENT",
        1,
    ),
    (
        "cancelled at once, and a node found the others gone",
        facts(LOST_CONDUCTOR, ABSENT, cancelled=True),
        "CANCELLED",
        "CANCELLED_BY_USER",
        130,
    ),
    ("somebody ended a rank, nobody cancelled", facts(TERMED, ENDED), "FAILED", "SIGNAL", 143),
    ("a rank was killed, then cancelled", facts(SIGNALLED, ENDED, cancelled=True), "FAILED", "SIGNAL", 137),
    (
        "cancelled, and a node that had not joined yet found the head gone",
        facts((STOPPED[0], record(1, "head-lost", failure("node 0 is gone"))), ENDED, cancelled=True),
        "CANCELLED",
        "CANCELLED_BY_USER",
        130,
    ),
    ("cancelled, native job still there", facts(STOPPED, cancelled=True), "CANCELLED", "CANCELLED_BY_USER", 130),
    ("stopped, nobody asked: the scheduler may know why", facts(STOPPED), "STOPPING", None, None),
    ("… and tells it once its nodes are clean", facts(STOPPED, ENDING, settled=True), "STOPPING", None, None),
    (
        "… which nobody waits for who cancelled",
        facts(STOPPED, ENDING, cancelled=True),
        "CANCELLED",
        "CANCELLED_BY_USER",
        130,
    ),
    ("… and runs on for long", facts(STOPPED, settled=True), "CANCELLED", "CANCELLED_BY_USER", 130),
    ("… and cannot be asked for long", facts(STOPPED, UNKNOWN, settled=True), "CANCELLED", "CANCELLED_BY_USER", 130),
    ("… and knows nothing", facts(STOPPED, ENDED), "CANCELLED", "CANCELLED_BY_USER", 130),
    ("… and says preempted", facts(STOPPED, killed(Reason.PREEMPTED)), "FAILED", "PREEMPTED", 1),
    ("… and says time limit", facts(STOPPED, killed(Reason.TIME_LIMIT, 124)), "FAILED", "TIME_LIMIT", 124),
    (
        "cancelled by the user, then preempted",
        facts(STOPPED, killed(Reason.PREEMPTED), cancelled=True),
        "CANCELLED",
        "CANCELLED_BY_USER",
        130,
    ),
    (
        "one node stopped in time, the other had ended",
        facts((OK[0], STOPPED[1]), ENDED, cancelled=True),
        "CANCELLED",
        "CANCELLED_BY_USER",
        130,
    ),
    ("conductor killed", facts(LOST_CONDUCTOR, ABSENT), "FAILED", "NODE_FAILURE", 1),
    # records are missing, and none is to come
    ("gone without a word", facts((), ABSENT, settled=True), "LOST", None, 1),
    ("gone, one node was well", facts(OK[:1], ABSENT, settled=True), "LOST", None, 1),
    (
        "ended with 0, one node's record missing",
        facts(OK[:1], Observation("ended", None, 0), settled=True),
        "LOST",
        None,
        1,
    ),
    (
        "ended with a code, no records",
        facts((), Observation("ended", None, 7), settled=True),
        "FAILED",
        "NODE_FAILURE",
        7,
    ),
    ("gone, one node failed", facts(FAILED[:1], ABSENT, settled=True), "FAILED", "EXIT_CODE", 3),
    ("gone after a cancel", facts((), ABSENT, settled=True, cancelled=True), "CANCELLED", "CANCELLED_BY_USER", 130),
    (
        "gone after a cancel, one node failed",
        facts(FAILED[:1], ABSENT, settled=True, cancelled=True),
        "FAILED",
        "EXIT_CODE",
        3,
    ),
]


@pytest.mark.parametrize(
    ("known", "state", "reason", "code"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_table(known, state, reason, code):
    status = fold(known)
    assert (status.state, status.reason, status.exit_code) == (state, reason, code)
    assert status.final == (code is not None)


@pytest.mark.parametrize("reason", KILLS)
@pytest.mark.parametrize("exits", [(), OK[:1], STOPPED[:1], FAILED[:1]], ids=["none", "ok", "stopped", "failed"])
def test_the_scheduler_wins_for_kills_where_records_are_missing(reason, exits):
    status = fold(facts(exits, killed(reason, 9), settled=True))
    assert (status.state, status.reason, status.exit_code) == ("FAILED", reason, 9)
    assert reason in status.message


def test_a_final_status_says_when_and_what():
    status = fold(facts(FAILED, ENDED))
    assert (status.started, status.ended, status.failure, status.message) == (5.0, 21.0, failure(), failure().message)


def test_what_the_compute_says_of_a_run_on_its_way_is_told():
    away = UNKNOWN._replace(message="Slurm does not answer")
    assert fold(facts(observation=away)) == Status(RunState.RUNNING, message=away.message)
    assert fold(facts(observation=away, launched=False)).message == away.message


def test_who_cancelled_is_told_where_we_were_not_asked_ourselves():
    told = killed(Reason.CANCELLED_BY_USER)
    assert fold(facts(STOPPED, told)).message == told.message
    assert fold(facts(STOPPED, told, cancelled=True)).message == "cancelled"
    assert fold(facts(STOPPED, ENDED._replace(message="unrelated"))).message == "cancelled"


def test_a_running_run_says_since_when():
    assert fold(facts(started=7.5)).started == 7.5
    assert fold(facts((), ABSENT, started=7.5, settled=True)).started == 7.5
    assert fold(facts(OK, started=7.5)).started == 5.0, "the records'"


def stand_in(node: int) -> ExitRecord:
    """What a conductor writes for an agent that was killed: it knows by what."""
    lost = Failure(Reason.NODE_FAILURE, "its agent was killed by signal 9", node, None, 137, 99.0)
    return record(node, "agent-lost", lost)


@pytest.mark.parametrize("derived", ["head-lost", "node-lost", "conductor-lost"])
def test_silence_that_others_noticed_gives_way_to_its_cause(derived):
    heard = record(0, derived, Failure(Reason.NODE_FAILURE, "connection lost", 1, None, 1, 10.0))
    assert fold(facts((heard, stand_in(1)), ENDED)).exit_code == 137


def test_the_earliest_failure_counts_and_equal_times_are_no_crash():
    early, late = failure(code=3, time=1.0), failure(code=4, time=2.0)
    assert agreed_failure((record(0, "failure", late), record(1, "failure", early))) == early
    same = [failure(rank=None)._replace(node_rank=None), failure(rank=2)]
    assert agreed_failure(tuple(record(node, "failure", each) for node, each in enumerate(same))) in same


# properties

failures = st.builds(
    failure,
    st.sampled_from([Reason.EXIT_CODE, Reason.SIGNAL, Reason.NODE_FAILURE, Reason.STORAGE, Reason.TIME_LIMIT]),
    st.integers(0, 255),
    st.floats(0, 100),
    st.none() | st.integers(0, 3),
)
stops = st.sampled_from([None, "failure", "cancel", "timeout", "head-lost", "node-lost", "conductor-lost", "storage"])


@st.composite
def records(draw, node: int) -> ExitRecord:
    return record(node, draw(stops), draw(st.none() | failures), draw(st.none() | st.integers(0, 255)))


observations = st.builds(
    Observation,
    st.sampled_from(["queued", "running", "ended", "absent", "unknown"]),
    st.none() | st.sampled_from(KILLS),
    st.none() | st.integers(0, 255),
)


@st.composite
def histories(draw) -> list[AttemptFacts]:
    """Facts as they grow: records come one by one; the compute's word changes and then stays; at last nothing more
    is to come. What the compute says of an ended job it says for good."""
    nodes = draw(st.integers(1, 3))
    order = draw(st.permutations(range(nodes)))
    left = draw(st.integers(0, nodes))
    exits = [draw(records(node)) for node in order[:left]]
    last = draw(observations.filter(lambda o: o.phase in ("ended", "absent")))
    before = draw(st.lists(st.sampled_from([QUEUED, RUNNING, UNKNOWN, ENDING]), max_size=3))
    cancelled = draw(st.booleans())
    known = facts(nodes=nodes, cancelled=cancelled, observation=RUNNING, launched=draw(st.booleans()))
    grown = [known]
    for step in draw(st.permutations([*exits, *before])):
        is_exit = isinstance(step, ExitRecord)
        change = {"exits": (*grown[-1].exits, step)} if is_exit else {"observation": step}
        grown.append(grown[-1]._replace(**change))
    grown.append(grown[-1]._replace(observation=last))
    grown.append(grown[-1]._replace(settled=True))
    return grown


def decided(status: Status) -> tuple[object, ...] | None:
    return (status.state, status.reason, status.exit_code) if status.final else None


@settings(max_examples=cases(150))
@given(histories())
def test_more_records_and_more_time_never_take_a_final_state_back(history):
    final = [decided(fold(known)) for known in history]
    known = [each for each in final if each is not None]
    assert len(set(known)) <= 1, final
    assert final[-1] is not None, "once nothing more is to come, the state is final"
    first = final.index(known[0])
    assert all(final[first:]), "final stays final"


@settings(max_examples=cases(150))
@given(histories())
def test_success_needs_every_record_and_every_code_zero(history):
    for known in history:
        if fold(known).state == RunState.SUCCEEDED:
            assert len(known.exits) == known.nodes
            assert all(record.code == 0 and record.failure is None for record in known.exits)


@settings(max_examples=cases(150))
@given(histories(), st.booleans())
def test_an_exit_code_of_zero_means_success_and_nothing_else(history, submitted):
    for known in history:
        status = fold(known._replace(submitted=submitted))
        assert (status.exit_code == 0) == (status.state == RunState.SUCCEEDED)


@pytest.mark.parametrize("phase", ["absent", "ended", "unknown", "queued", "running"])
def test_what_left_no_record_never_succeeded(phase):
    flags = itertools.product([False, True], repeat=4)
    for settled, cancelled, launched, submitted in flags:
        known = facts(OK[:1], Observation(phase, None, 0), settled=settled, cancelled=cancelled, launched=launched)
        assert fold(known._replace(submitted=submitted)).state != RunState.SUCCEEDED


def test_a_node_that_the_run_went_on_without_does_not_count():
    went_on = record(0)._replace(without=(1,))
    for exits, observation in (((went_on,), RUNNING), ((went_on, stand_in(1)), ENDED), ((went_on,), ENDED)):
        status = fold(facts(exits, observation))
        assert (status.state, status.exit_code, status.message) == (RunState.SUCCEEDED, 0, "continued without node 1")
    failed = record(0, "failure", failure())._replace(without=(1,))
    assert fold(facts((failed, stand_in(1)), ENDED)).exit_code == 3
    assert tuple_of(ExitRecord, went_on.to_json()) == went_on
    assert list(went_on.to_json())[-1] == "code", "batch scripts look for it at the end"


@pytest.mark.parametrize("code", [256, 512, -1, 10**9])
def test_a_code_that_a_process_cannot_have_is_no_success(code: int) -> None:
    """Of 256 a shell would see 0."""
    status = fold(facts([record(0, "failure", failure(code=code)), record(1)], Observation("ended")))
    assert (status.state, status.exit_code) == (RunState.FAILED, 1)


def test_agents_that_are_told_to_end_since_the_jobs_own_process_was_killed_were_not_cancelled():
    killed = Observation("ended", Reason.SIGNAL, 137, "Slurm: the job failed by signal SIGKILL")
    both = (record(0, "cancel", None), record(1, "cancel", None))
    assert (fold(facts(both, killed)).state, fold(facts(both, killed)).reason) == ("FAILED", "SIGNAL")
    assert fold(facts(both, killed, cancelled=True)).state == "CANCELLED"
    assert fold(facts(both, killed._replace(code=143))).state == "CANCELLED"
