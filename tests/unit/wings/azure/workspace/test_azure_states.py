"""What the service says of a job, as an observation of a run."""

from __future__ import annotations

from itertools import pairwise

import pytest

from worldsize.state.records import Reason
from worldsize.state.run_state import AttemptFacts, fold
from worldsize.wings.azure.workspace.polling import pause_seconds
from worldsize.wings.azure.workspace.states import JOBS, observation

ENUMERATION = (
    "NotStarted Starting Provisioning Preparing Queued Running Finalizing CancelRequested Completed Failed Canceled "
    "NotResponding Paused Scheduled"
)
"""JobStatus of the published specification, but for Unknown."""


def test_every_state_is_known() -> None:
    assert set(JOBS) == set(ENUMERATION.split())
    assert {state.phase for state in JOBS.values()} == {"queued", "running", "ended"}


@pytest.mark.parametrize("word", ["Unknown", "", "Perfect", None, 7])
def test_a_state_that_nobody_knows_is_no_success(word: object) -> None:
    seen = observation({"status": word})
    assert seen.phase == "unknown" and "unknown to this release" in seen.message


def test_a_job_that_completed_without_records_is_no_success() -> None:
    """Its agents have told nothing: whatever ran was not what the plan says."""
    facts = AttemptFacts(1, True, True, None, False, False, (), observation({"status": "Completed"}), True)
    assert fold(facts).state == "LOST"


@pytest.mark.parametrize(
    ("said", "reason", "code"),
    [
        ("Image build failed: conda could not solve", Reason.ENVIRONMENT, 1),
        ("Execution failed. User process '/bin/bash' exited with status code 3. Error: image", Reason.EXIT_CODE, 3),
        ("Something else", None, 1),
        ("", None, 1),
    ],
)
def test_a_job_that_failed_before_its_agents_says_why(said: str, reason: str | None, code: int) -> None:
    seen = observation({"status": "Failed"}, {"code": "UserError", "message": said and said + "\nmore"})
    assert (seen.phase, seen.reason, seen.code, seen.over) == ("ended", reason, code, True)
    assert seen.message == "Azure ML: " + (said or "failed")


def test_a_cancelled_one_is_cancelled() -> None:
    seen = observation({"status": "Canceled"})
    assert (seen.phase, seen.reason, seen.code) == ("ended", Reason.CANCELLED_BY_USER, 130)


def test_pauses_grow_from_2_to_60_seconds() -> None:
    pauses = [pause_seconds(age) for age in (-5, 0, 60, 200, 300, 400, 600, 3600, 1e9)]
    assert all(before <= after for before, after in pairwise(pauses))
    assert pauses[0] == pytest.approx(2.4, abs=0.1) and pauses[4] == 31.0 and pauses[-1] == 60.0
