"""Every job state, against the names in Slurm's sources, 20.11 to 26.05."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.compute.slurm.states import STATES, full_name, state_of
from worldsize.state.records import Reason

STATES_OF_SLURM = """
BOOT_FAIL CANCELLED COMPLETED COMPLETING CONFIGURING DEADLINE EXPEDITING FAILED LAUNCH_FAILED NODE_FAIL
OUT_OF_MEMORY PENDING POWER_UP_NODE PREEMPTED RECONFIG_FAIL REQUEUED REQUEUED_CRON REQUEUE_FED REQUEUE_HOLD
RESIZING RESV_DEL_HOLD REVOKED RUNNING SIGNALING SPECIAL_EXIT STAGE_OUT STOPPED SUSPENDED TIMEOUT UNINITIALISED
UPDATE_DB
"""
"""Every word of job_state_string and job_state_string_complete, 20.11 to 26.05."""

COMPACT_STATES = """
BF CA CD CF CG DL F NF OOM PD PR R RC RD RF RH RQ RS RV S SE SI SO ST TO
"""


def test_every_state_is_in_the_table() -> None:
    assert set(STATES_OF_SLURM.split()) <= set(STATES)
    assert all(full_name(compact) in STATES for compact in COMPACT_STATES.split())
    assert {state.compact for state in STATES.values()} - {""} <= set(COMPACT_STATES.split())


@pytest.mark.parametrize(
    ("state", "phase", "reason"),
    [
        ("PENDING", "queued", None),
        ("CONFIGURING", "running", None),
        ("RUNNING", "running", None),
        ("SUSPENDED", "running", None),
        ("COMPLETING", "running", None),
        ("STAGE_OUT", "running", None),
        ("COMPLETED", "ended", None),
        ("FAILED", "ended", None),
        ("CANCELLED", "ended", Reason.CANCELLED_BY_USER),
        ("TIMEOUT", "ended", Reason.TIME_LIMIT),
        ("DEADLINE", "ended", Reason.TIME_LIMIT),
        ("OUT_OF_MEMORY", "ended", Reason.OUT_OF_MEMORY),
        ("PREEMPTED", "ended", Reason.PREEMPTED),
        ("NODE_FAIL", "ended", Reason.NODE_FAILURE),
        ("BOOT_FAIL", "ended", Reason.NODE_FAILURE),
        ("REQUEUED", "queued", None),
        ("REVOKED", "unknown", None),
    ],
)
def test_what_a_state_means(state: str, phase: str, reason: str | None) -> None:
    assert state_of(state)[:2] == (phase, reason)


def test_only_completed_is_a_success() -> None:
    fine = [name for name, state in STATES.items() if state.phase == "ended" and state.reason is None]
    assert fine == ["COMPLETED", "FAILED"]


def test_what_is_held_is_stuck() -> None:
    assert {name for name, state in STATES.items() if state.stuck} == {"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}


@pytest.mark.parametrize(
    ("printed", "name"),
    [
        ("CANCELLED by 0", "CANCELLED"),
        ("CANCELLED by 1000", "CANCELLED"),
        ("CANCELLED+", "CANCELLED"),
        ("COMPLETI+", "COMPLETING"),
        ("COMPLETE+", "COMPLETED"),
        ("OUT_OF_ME+", "OUT_OF_MEMORY"),
        ("OOM", "OUT_OF_MEMORY"),
        ("R", "RUNNING"),
        ("CG", "COMPLETING"),
        ("timeout", "TIMEOUT"),
        (" PENDING ", "PENDING"),
        ("RUNNING,COMPLETING", "COMPLETING"),
        ("CANCELLED,COMPLETING", "COMPLETING"),
        ("PENDING,LAUNCH_FAILED", "PENDING"),
        ("COMPLETED,UPDATE_DB", "COMPLETED"),
        ("PENDING,REQUEUE_HOLD", "REQUEUE_HOLD"),
        ("COMPL", "COMPL"),
        ("?", "?"),
        ("", ""),
    ],
)
def test_a_state_as_some_program_prints_it(printed: str, name: str) -> None:
    assert full_name(printed) == name


@given(st.text(max_size=30))
def test_an_unknown_state_is_unknown_and_never_a_success(text: str) -> None:
    if full_name(text) not in STATES:
        assert state_of(text).phase == "unknown"
