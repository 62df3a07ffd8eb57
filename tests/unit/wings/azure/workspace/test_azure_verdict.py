"""The end of a job without agents: the service's word, and nothing that it does not say."""

from __future__ import annotations

from typing import Any

import pytest

from worldsize.plan.plan import Plan, node_major_layout
from worldsize.state.records import Observation, Reason, Status
from worldsize.state.run_state import AttemptFacts, fold
from worldsize.wings.azure.workspace.states import JOBS, observation
from worldsize.wings.azure.workspace.verdict import end_records, service_time, with_time_limit

PLAN = Plan("r", "n", "cloud", 1.0, 0, node_major_layout(2, 2), ("true",), {})
RAN = {"startTimeUtc": "2026-01-02T03:04:00Z", "endTimeUtc": "2026-01-02T03:05:00.5Z"}


def ended(word: str, said: dict[str, Any] | None = None, cancelled: bool = False, timeout: float = 60) -> Status:
    """The run's status, as soon as a job of this state was seen."""
    seen = with_time_limit(observation({"status": word}, said), {}, timeout)
    records = tuple(end_records(PLAN, seen, 10.0, 20.0))
    return fold(AttemptFacts(2, True, True, None, cancelled, True, records, seen, seen.over))


def test_only_a_job_that_completed_is_a_success() -> None:
    over = [word for word, state in JOBS.items() if state.phase == "ended"]
    assert {word: ended(word).state for word in over} == {
        "Completed": "SUCCEEDED",
        "Failed": "FAILED",
        "Canceled": "CANCELLED",
    }
    assert (ended("Completed").started, ended("Completed").ended) == (10.0, 20.0)


def test_after_a_cancel_the_service_decides_all_the_same() -> None:
    """Where it tells no reason for a failure, the cancel is one."""
    failed = {"message": "User process 'bash' exited with status code 3"}
    assert ended("Completed", cancelled=True).state == "SUCCEEDED"
    assert ended("Failed", failed, cancelled=True).state == "FAILED"
    assert ended("Failed", cancelled=True).state == ended("Canceled", cancelled=True).state == "CANCELLED"


@pytest.mark.parametrize(
    ("said", "reason", "code"),
    [
        ("Execution failed. User process '/bin/bash' exited with status code 3.", Reason.EXIT_CODE, 3),
        ("Execution failed. User process '/bin/bash' exited with status code -9.", Reason.SIGNAL, 137),
        ("Image build failed", Reason.ENVIRONMENT, 1),
        ("The node was taken away", Reason.NODE_FAILURE, 1),
    ],
)
def test_a_failure_is_what_the_service_says(said: str, reason: str, code: int) -> None:
    status = ended("Failed", {"message": said})
    assert (status.state, status.reason, status.exit_code) == ("FAILED", reason, code)
    assert status.message == "Azure ML: " + said
    assert status.failure is not None and status.failure.rank is None and status.failure.node_rank is None


def test_records_tell_of_no_host_and_of_no_ranks() -> None:
    for word in ("Completed", "Failed", "Canceled"):
        records = end_records(PLAN, observation({"status": word}), 10.0, 20.0)
        assert [(each.node_rank, each.host, each.ranks) for each in records] == [(0, "", ()), (1, "", ())]


@pytest.mark.parametrize(
    ("details", "timeout", "is_limit"),
    [
        (RAN, 60.5, True),
        (RAN, 61.0, False),
        (RAN, None, False),
        ({}, 60.0, False),
        ({"cancelationReason": "The job exceeded its time limit"}, 60.0, True),
        ({"warnings": [{"message": "Run timed out"}]}, 60.0, True),
        ({"warnings": [{"message": "Run timed out"}]}, None, False),
        ({"cancelationReason": "cancelled by a request", "warnings": "?"}, 60.0, False),
        ({"warnings": [None, {"message": 7}], "startTimeUtc": 7, "endTimeUtc": "soon"}, 60.0, False),
    ],
)
def test_a_time_limit_is_a_cancel_that_the_service_explains(
    details: dict[str, Any], timeout: float | None, is_limit: bool
) -> None:
    seen = with_time_limit(observation({"status": "Canceled"}), details, timeout)
    assert (seen.reason == Reason.TIME_LIMIT) == is_limit and seen.phase == "ended"
    status = fold(AttemptFacts(2, True, True, None, False, True, tuple(end_records(PLAN, seen, 1.0, 2.0)), seen, True))
    expected = ("FAILED", Reason.TIME_LIMIT, 124) if is_limit else ("CANCELLED", Reason.CANCELLED_BY_USER, 130)
    assert (status.state, status.reason, status.exit_code) == expected


def test_what_has_another_end_reached_no_limit() -> None:
    for word in ("Completed", "Failed"):
        seen = observation({"status": word})
        assert with_time_limit(seen, RAN, 1.0) == seen
    assert with_time_limit(Observation("running"), RAN, 1.0) == Observation("running")


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1970-01-02T00:00:00Z", 86400.0),
        ("1970-01-01T00:00:01.2500000Z", 1.25),
        ("1970-01-01T00:00:01.5+00:00", 1.5),
        ("1970-01-01T00:00:01", 1.0),
        ("1970-13-01T00:00:01Z", None),
        ("1970-01-01", None),
        ("", None),
        (None, None),
    ],
)
def test_times_of_the_service(text: str | None, time: float | None) -> None:
    assert service_time(text) == time
