"""What a job's row says of a run: phase, reason, exit code, words; and how often Slurm may be asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.compute.slurm.job_rows import ACCOUNTS, NOWHERE, QUEUE, UNANSWERED, JobRow, signal_text, span
from worldsize.compute.slurm.observe import observation
from worldsize.compute.slurm.queue import query_pause
from worldsize.compute.slurm.states import STATES
from worldsize.state.records import Observation, Reason
from worldsize.trust.owners import login_name

ROW = JobRow("12", QUEUE, "RUNNING", name="run", partition="main", nodes="node[1-2]", node_count=2, started=100.0)


def seen(**changes: object) -> JobRow:
    return ROW._replace(**changes)  # type: ignore[arg-type]


def test_a_running_job_needs_no_words() -> None:
    assert observation(ROW) == Observation("running", started=100.0)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("CONFIGURING", "nodes, which are being made ready"),
        ("SUSPENDED", "suspended by Slurm"),
        ("COMPLETING", "is ending"),
    ],
)
def test_what_is_between_queued_and_ended_runs(state: str, words: str) -> None:
    found = observation(seen(state=state))
    assert (found.phase, found.over) == ("running", False)
    assert words in found.message
    assert state in found.message


def test_a_waiting_job_says_why_and_where() -> None:
    found = observation(seen(state="PENDING", reason="Priority", started=None))
    assert found.phase == "queued"
    assert found.message == "waits in partition main behind jobs of higher priority (Priority)"
    assert not found.stuck


def test_a_job_that_will_never_start_says_so_and_what_to_do() -> None:
    found = observation(seen(state="PENDING", reason="JobHeldUser"))
    assert found.stuck
    assert found.message.endswith("it will not start by itself: `scontrol release 12`")
    found = observation(seen(state="PENDING", reason="DependencyNeverSatisfied", dependency="afterok:2(failed)"))
    assert found.stuck
    assert "afterok:2(failed)" in found.message
    found = observation(seen(state="SPECIAL_EXIT", reason="None"))
    assert found.stuck


def test_a_restarted_job_says_what_put_it_back() -> None:
    row = seen(state="PENDING", reason="BeginTime", restarts=2, before="PREEMPTED", partition="low")
    found = observation(row)
    assert found.message.startswith("preempted and put back into the queue; waits in partition low")
    assert found.restarts == 2
    found = observation(seen(state="PENDING", reason="BeginTime", restarts=1, before="NODE_FAIL"))
    assert found.message.startswith("put back into the queue when a node failed")
    found = observation(seen(state="PENDING", restarts=1))
    assert found.message.startswith("put back into the queue; waits")


def test_a_success() -> None:
    found = observation(seen(state="COMPLETED", exit_code="0:0"))
    assert found == Observation("ended", code=0, over=True, started=100.0)


@pytest.mark.parametrize(
    ("changes", "reason", "code", "message"),
    [
        (
            {"state": "FAILED", "exit_code": "7:0", "reason": "NonZeroExitCode"},
            Reason.EXIT_CODE,
            7,
            "failed with code 7",
        ),
        ({"state": "FAILED", "exit_code": "1792"}, Reason.EXIT_CODE, 7, "failed with code 7"),
        ({"state": "FAILED", "exit_code": "0:9"}, Reason.SIGNAL, 137, "failed by signal 9 (KILL)"),
        (
            {"state": "FAILED", "exit_code": "0:9", "reason": "RaisedSignal:9(Killed)"},
            Reason.SIGNAL,
            137,
            "Slurm: the job failed by signal 9 (KILL)",
        ),
        ({"state": "FAILED", "exit_code": "139:0"}, Reason.SIGNAL, 139, "by signal 11 (SEGV)"),
        (
            {"state": "FAILED", "exit_code": "0:53", "reason": "RaisedSignal:53(Real-time_signal_19)"},
            Reason.ENVIRONMENT,
            1,
            "Slurm: the first of node[1-2] could not open the run's batch.log",
        ),
        (
            {"state": "FAILED", "exit_code": "4021", "nodes": "node3", "node_count": 1},
            Reason.ENVIRONMENT,
            1,
            "Slurm: node3 could not open the run's batch.log",
        ),
        ({"state": "FAILED", "exit_code": "181:0"}, Reason.SIGNAL, 181, "failed by signal"),
        (
            {"state": "FAILED", "exit_code": "0:0", "reason": "JobLaunchFailure"},
            Reason.NODE_FAILURE,
            1,
            "failed (JobLaunchFailure)",
        ),
        (
            {"state": "FAILED", "exit_code": "137:0", "out_of_memory": True},
            Reason.OUT_OF_MEMORY,
            137,
            "a step ran out of memory",
        ),
        (
            {"state": "OUT_OF_MEMORY", "exit_code": "0:125"},
            Reason.OUT_OF_MEMORY,
            137,
            "ran out of memory (OUT_OF_MEMORY)",
        ),
        (
            {"state": "TIMEOUT", "exit_code": "0:0", "elapsed": 62, "limit": 60},
            Reason.TIME_LIMIT,
            1,
            "Slurm: it reached its time limit (TIMEOUT), after 1 min 2 s of a limit of 1 min",
        ),
        (
            {"state": "NODE_FAIL", "exit_code": "0:0", "nodes": "node3", "node_count": 1},
            Reason.NODE_FAILURE,
            1,
            "node3 failed",
        ),
        ({"state": "NODE_FAIL", "exit_code": "0:0"}, Reason.NODE_FAILURE, 1, "one of node[1-2] failed (NODE_FAIL)"),
        ({"state": "BOOT_FAIL", "exit_code": "0:0", "nodes": ""}, Reason.NODE_FAILURE, 1, "a node failed (BOOT_FAIL)"),
        ({"state": "PREEMPTED", "exit_code": "0:15"}, Reason.PREEMPTED, 143, "preempted by a job that goes first"),
        ({"state": "DEADLINE", "exit_code": "0:0"}, Reason.TIME_LIMIT, 1, "deadline"),
        ({"state": "CANCELLED", "exit_code": "0:15"}, Reason.CANCELLED_BY_USER, 143, "Slurm: cancelled"),
        (
            {"state": "CANCELLED", "exit_code": "0:0", "cancelled_by": 0},
            Reason.CANCELLED_BY_USER,
            1,
            "by root: an administrator, or Slurm itself",
        ),
        (
            {"state": "CANCELLED", "exit_code": "0:0", "cancelled_by": 4_000_000_000},
            Reason.CANCELLED_BY_USER,
            1,
            "by uid 4000000000",
        ),
    ],
)
@pytest.mark.parametrize("where", [QUEUE, ACCOUNTS])
def test_how_jobs_end(changes: dict[str, object], reason: str, code: int, message: str, where: str) -> None:
    found = observation(seen(seen=where, **changes))
    assert (found.phase, found.reason, found.code) == ("ended", reason, code)
    assert message in found.message


def test_after_a_node_failed_somebody_may_still_write() -> None:
    assert not observation(seen(state="NODE_FAIL")).over
    ended = [name for name, state in STATES.items() if state.phase == "ended" and not name.endswith("FAIL")]
    assert all(observation(seen(state=name, exit_code="1:0")).over for name in ended)


@pytest.mark.parametrize(
    ("limit", "before", "elapsed", "code", "expected"),
    [
        (3600, 300, 3310, "143:0", Reason.TIME_LIMIT),
        (3600, 300, 3241, "143:0", Reason.TIME_LIMIT),
        (3600, 300, 3239, "143:0", Reason.SIGNAL),
        (3600, 300, 3310, "138:0", Reason.TIME_LIMIT),
        (3600, 300, 3310, "0:15", Reason.TIME_LIMIT),
        (3600, 300, 3310, "1:0", Reason.EXIT_CODE),
        (3600, 300, 3310, "139:0", Reason.SIGNAL),
        (60, 50, 22, "143:0", Reason.TIME_LIMIT),
        (60, 50, 1, "143:0", Reason.TIME_LIMIT),
        (180, 60, 70, "143:0", Reason.TIME_LIMIT),
        (180, 60, 50, "143:0", Reason.SIGNAL),
        (None, 60, 3500, "143:0", Reason.SIGNAL),
        (3600, None, 3599, "143:0", Reason.SIGNAL),
    ],
)
def test_a_signal_that_the_job_asked_for_before_its_limit_is_the_limit(
    limit: int | None, before: int | None, elapsed: int, code: str, expected: str
) -> None:
    row = seen(state="FAILED", exit_code=code, limit=limit, elapsed=elapsed)
    assert observation(row, signal_before=before).reason == expected


def test_what_slurm_does_not_say_is_not_concluded() -> None:
    found = observation(JobRow("12", UNANSWERED, trouble="Unable to contact slurm controller (connect failure)"))
    assert found.phase == "unknown"
    assert "Unable to contact" in found.message
    found = observation(JobRow("12", NOWHERE, trouble="Slurm accounting storage is disabled"))
    assert (found.phase, found.over) == ("absent", False)
    assert "accounting storage is disabled" in found.message
    assert observation(JobRow("12", NOWHERE)).message == "Slurm no longer knows job 12"


def test_accounting_that_has_not_noted_the_end_makes_no_running_job() -> None:
    for state in ("RUNNING", "PENDING", "COMPLETING"):
        found = observation(seen(seen=ACCOUNTS, state=state))
        assert (found.phase, found.over) == ("absent", False)


def test_another_job_with_the_same_number_is_not_ours() -> None:
    assert observation(ROW, name="run").phase == "running"
    found = observation(ROW, name="another")
    assert (found.phase, found.over) == ("absent", False)


def test_an_unknown_state_is_unknown() -> None:
    found = observation(seen(state="SOMETHING_NEW"))
    assert found.phase == "unknown"
    assert "SOMETHING_NEW" in found.message


_ROWS = st.builds(
    JobRow,
    st.just("1"),
    st.sampled_from((QUEUE, ACCOUNTS)),
    st.sampled_from(sorted(STATES)) | st.text(),
    st.text(),
    exit_code=st.sampled_from(("0:0", "0", "7:0", "1792", "0:9", "")) | st.text(),
    restarts=st.integers(0, 3),
    out_of_memory=st.booleans(),
)


@pytest.mark.heavy
@given(_ROWS)
def test_only_completed_is_ever_a_success(row: JobRow) -> None:
    found = observation(row)
    assert found.phase in ("queued", "running", "ended", "absent", "unknown")
    if found.phase == "ended" and row.state != "COMPLETED":
        assert found.code


def test_spans_signals_and_users() -> None:
    assert [span(seconds) for seconds in (0, 59, 62, 3600, 90061, 86400)] == [
        "0 s",
        "59 s",
        "1 min 2 s",
        "1 h",
        "1 d 1 h",
        "1 d",
    ]
    assert signal_text(9) == "9 (KILL)"
    assert signal_text(99) == "99"
    assert login_name(0) == "root"
    assert login_name(4_000_000_000) is None


def test_slurm_is_asked_more_rarely_the_longer_nothing_happens() -> None:
    assert query_pause(0) == query_pause(20) == 1.0
    assert query_pause(100) == 5.0
    assert query_pause(10_000) == 15.0
    assert query_pause(10_000, queued=True) == 30.0
    assert query_pause(0, runs=500) == 4.0
    ages = [query_pause(age) for age in range(0, 2000, 10)]
    assert ages == sorted(ages)
