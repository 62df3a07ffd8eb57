"""When a step of the virtual srun ends its tasks, and with which code: by a clock that the tests move."""

from __future__ import annotations

import pytest

from worldsize.state.first_failure import SETTLE
from worldsize.state.records import Failure, Reason
from worldsize.wings.batch_scripts.agent.srun_options import parse_srun_words
from worldsize.wings.batch_scripts.agent.step_end import StepEnd, step_end

KILLED, TERMINATED = 137, 143


def step(
    grace: float = 5.0, wait: float = 0.0, limit: float | None = None, kill: bool = True, now: float = 100.0
) -> StepEnd:
    return StepEnd(grace, wait, limit, kill, now)


def failure(code: int = 4, message: str = "exited with code 4") -> Failure:
    return Failure(Reason.EXIT_CODE, message, 0, 1, code, 5.0)


def end_due(end: StepEnd, *moments: float) -> list[int | None]:
    """What a supervisor of the step does: it ends it for what is due, once."""
    found = []
    for now in moments:
        code = end.code_due(now) or end.code_of_time_limit(now)
        found.append(code if code is not None and end.request(code, now) else None)
    return found


# as the words of srun have it


def of_words(words: str, **environ: str) -> StepEnd:
    return step_end(parse_srun_words([*words.split(), "true"], environ), 5.0, 100.0)


@pytest.mark.parametrize(
    ("words", "environ", "ends"),
    [
        ("", {"SLURM_KILL_BAD_EXIT": "1"}, True),
        ("-K0", {"SLURM_KILL_BAD_EXIT": "1"}, False),
        ("--kill-on-bad-exit=0", {"SLURM_KILL_BAD_EXIT": "1"}, False),
        ("-K", {"SLURM_KILL_BAD_EXIT": "0"}, True),
        ("-K1", {}, True),
        ("", {}, False),
    ],
)
def test_whether_a_failure_ends_the_others(words: str, environ: dict[str, str], ends: bool) -> None:
    end = of_words(words, **environ)
    end.record_ended(4, failure(), 101.0)
    assert end_due(end, 101.0) == [KILLED if ends else None]


@pytest.mark.parametrize(
    ("words", "environ", "pause"),
    [
        ("-W7", {}, 7.0),
        ("--wait=7", {"SLURM_WAIT": "9"}, 7.0),
        ("", {"SLURM_WAIT": "9"}, 9.0),
        ("-W0", {"SLURM_WAIT": "9"}, None),
        ("--wait=x", {}, None),
        ("-t 0:30", {}, 30.0),
        ("-t 40-0", {}, 3600.0),
        ("--time=nonsense", {}, None),
        ("", {"SLURM_TIMELIMIT": "1"}, None),
    ],
)
def test_how_long_the_others_have(words: str, environ: dict[str, str], pause: float | None) -> None:
    end = of_words(words, **environ)
    end.record_ended(0, None, 100.0)
    assert end.pause(100.0, has_tasks=True) == pause


# what ends the others


def test_tasks_that_end_with_0_end_nobody() -> None:
    end = step()
    end.record_ended(0, None, 101.0)
    assert end_due(end, 101.0, 1e9) == [None, None]
    assert (end.code, end.exit_code(), end.pause(1e9, True)) == (None, 0, None)


def test_one_that_fails_ends_the_others_at_once() -> None:
    end = step()
    end.record_ended(4, failure(), 101.0)
    assert end_due(end, 101.0) == [KILLED]
    end.record_ended(TERMINATED, None, 101.5)
    assert end.exit_code() == 4, "what the others end with then is our doing"


def test_one_that_fails_ends_nobody_without_kill_on_bad_exit() -> None:
    end = step(kill=False)
    end.record_ended(4, failure(), 101.0)
    assert end_due(end, 101.0, 1e9) == [None, None]
    end.record_ended(0, None, 200.0)
    assert end.exit_code() == 4


def test_one_that_lost_its_peer_waits_for_who_failed_before() -> None:
    end = step()
    end.record_ended(1, failure(1, "RuntimeError: Connection closed by peer"), 101.0)
    assert end.pause(101.0, True) == pytest.approx(SETTLE)
    assert end_due(end, 101.0, 101.0 + SETTLE - 0.01) == [None, None]
    assert end_due(end, 101.0 + SETTLE) == [KILLED]


def test_one_that_fails_by_itself_ends_that_wait() -> None:
    end = step()
    end.record_ended(1, failure(1, "RuntimeError: Connection closed by peer"), 101.0)
    end.record_ended(4, failure(), 101.1)
    assert end_due(end, 101.1) == [KILLED] and end.exit_code() == 4


@pytest.mark.parametrize("code", [0, 3])
def test_wait_counts_from_the_first_end(code: int) -> None:
    end = step(wait=30.0, kill=False)
    end.record_ended(code, failure(code) if code else None, 101.0)
    end.record_ended(0, None, 120.0)
    assert end.pause(120.0, True) == 11.0
    assert end_due(end, 130.9, 131.0) == [None, KILLED]


def test_without_a_wait_nobody_is_ended_for_others_that_have() -> None:
    end = step(wait=0.0)
    end.record_ended(0, None, 101.0)
    assert end_due(end, 1e9) == [None]


def test_a_wait_that_is_over_is_what_srun_ends_with_where_nobody_failed() -> None:
    end = step(wait=1.0)
    end.record_ended(0, None, 101.0)
    assert end_due(end, 102.0) == [KILLED]
    end.record_ended(TERMINATED, None, 102.1)
    assert end.exit_code() == KILLED


def test_a_failure_does_not_wait_for_a_wait() -> None:
    end = step(wait=600.0)
    end.record_ended(0, None, 101.0)
    end.record_ended(4, failure(), 102.0)
    assert end_due(end, 102.0) == [KILLED]


def test_the_time_limit_counts_from_the_start() -> None:
    end = step(limit=60.0)
    assert end.pause(100.0, True) == 60.0
    assert end_due(end, 159.9, 160.0, 161.0) == [None, TERMINATED, None]
    assert end.exit_code() == TERMINATED


def test_no_task_that_ends_moves_the_time_limit() -> None:
    end = step(limit=60.0, wait=1000.0)
    end.record_ended(0, None, 150.0)
    assert end_due(end, 160.0) == [TERMINATED]


@pytest.mark.parametrize(
    ("first", "second", "code"), [(0.0, 1.0, TERMINATED), (1.0, 0.0, TERMINATED), (0.0, 0.0, TERMINATED)]
)
def test_a_second_reason_to_end_changes_nothing(first: float, second: float, code: int) -> None:
    end = step(limit=60.0)
    assert end.request(code, 100.0 + first)
    end.record_ended(4, failure(), 100.0 + second)
    assert end_due(end, 200.0) == [None]
    assert (end.code, end.exit_code()) == (code, code)


# TERM, grace, KILL


def test_after_the_grace_whatever_is_left_is_killed() -> None:
    end = step(grace=5.0)
    assert not end.is_overdue(1e9)
    assert end.request(TERMINATED, 110.0)
    assert [end.is_overdue(now) for now in (110.0, 114.9, 115.0)] == [False, False, True]


def test_a_second_request_gives_no_more_time() -> None:
    end = step(grace=5.0)
    assert end.request(TERMINATED, 110.0) and not end.request(KILLED, 114.0)
    assert end.is_overdue(115.0)


def test_at_once_leaves_no_grace() -> None:
    end = step(grace=600.0)
    end.request(TERMINATED, 110.0)
    end.request_kill(111.0)
    assert end.is_overdue(111.0)


@pytest.mark.parametrize(("grace", "killed"), [(600.0, 5.0), (2.0, 2.0)])
def test_leftovers_have_a_short_grace_of_their_own(grace: float, killed: float) -> None:
    end = step(grace=grace)
    end.record_ended(0, None, 101.0)
    assert end.request_end_of_leftovers(110.0)
    assert not end.request_end_of_leftovers(110.1), "once"
    assert [end.is_overdue(110.0 + after) for after in (killed - 0.1, killed)] == [False, True]
    assert end.exit_code() == 0, "what a task leaves behind is no failure"


def test_leftovers_of_tasks_that_were_told_to_end_have_what_is_left_of_the_grace() -> None:
    end = step(grace=5.0)
    end.request(TERMINATED, 110.0)
    assert not end.request_end_of_leftovers(112.0), "TERM has been sent to all of the step"
    assert end.is_overdue(115.0)


# how long to wait


def test_a_pause_is_as_long_as_until_the_next_thing_to_do() -> None:
    end = step(wait=10.0, limit=60.0)
    assert end.pause(100.0, True) == 60.0
    end.record_ended(0, None, 101.0)
    assert [end.pause(now, True) for now in (101.0, 105.0, 111.0, 500.0)] == [10.0, 6.0, 0.0, 0.0]


def test_a_pause_is_short_while_something_ends() -> None:
    assert step().pause(100.0, has_tasks=False) == pytest.approx(0.02)
    end = step()
    end.request(TERMINATED, 100.0)
    assert end.pause(100.0, has_tasks=True) == pytest.approx(0.02)


@pytest.mark.parametrize("end", [step(limit=40 * 86400.0), step(wait=99999999.0)])
def test_a_pause_is_no_longer_than_a_selector_can_wait(end: StepEnd) -> None:
    end.record_ended(0, None, 101.0)
    assert end.pause(101.0, True) == 3600.0


# the code


@pytest.mark.parametrize(("codes", "code"), [([], 0), ([0, 0], 0), ([3, 0, 6], 6), ([0, 4], 4)])
def test_srun_ends_with_the_highest_code_of_its_tasks(codes: list[int], code: int) -> None:
    end = step(kill=False)
    for each in codes:
        end.record_ended(each, failure(each) if each else None, 101.0)
    assert end.exit_code() == code


def test_a_task_that_could_not_be_started_counts() -> None:
    end = step()
    end.record_unstarted(2)
    end.record_ended(0, None, 101.0)
    assert end_due(end, 1e9) == [None], "the others go on"
    assert end.exit_code() == 2
