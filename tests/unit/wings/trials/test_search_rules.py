"""A search without processes and files: when a trial ends, what is left out, configurations, logs, the table."""

from __future__ import annotations

import csv
import time

import pytest

from worldsize.wings.trials.agent.search import (
    FAILED,
    GIVEN_UP,
    LEFT_OUT,
    MEASURED,
    TrialResult,
    best_result,
    end_state,
    metric_values,
    reason_to_leave_out,
    result_text,
    results_csv,
    with_reports,
    with_settings,
)

MICRO, STAGE = "train_micro_batch_size_per_gpu", "zero_optimization.stage"
SEARCH = {"reports": 3, "timeout": 60, "goal": "max", "patience": None, "metric": "throughput", "steps": 5}


def results(*told: tuple[str, float | None], **settings: object) -> list[TrialResult]:
    return [
        TrialResult(number, settings, state, value, 1.0, "", float(number))
        for number, (state, value) in enumerate(told, 1)
    ]


@pytest.mark.parametrize(("goal", "best"), [("max", 3), ("min", 2)])
def test_the_best_is_measured(goal: str, best: int) -> None:
    told = (
        (MEASURED, 5.0),
        (MEASURED, 4.0),
        (MEASURED, 9.0),
        (GIVEN_UP, 100.0 if goal == "max" else 0.1),
        (FAILED, None),
    )
    found = best_result(results(*told), goal)
    assert found is not None and found.number == best
    assert best_result(results((FAILED, None), (GIVEN_UP, 1.0)), goal) is None


@pytest.mark.parametrize(
    ("told", "value", "best", "seconds", "found"),
    [
        (0, None, None, 59.9, ""),
        (0, None, 5.0, 60.0, FAILED),
        (1, 3.0, None, 59.9, ""),
        (1, 3.0, None, 60.0, MEASURED),
        (2, 3.0, 5.9, 1.0, ""),
        (2, 3.0, 6.1, 1.0, GIVEN_UP),
        (3, 3.0, 100.0, 1.0, MEASURED),
        (9, 3.0, None, 0.0, MEASURED),
        (1, -3.0, -1.0, 1.0, ""),
    ],
)
def test_when_a_trial_is_to_end(told: int, value: float | None, best: float | None, seconds: float, found: str) -> None:
    assert end_state(told, value, best, seconds, SEARCH) == found


@pytest.mark.parametrize(("value", "found"), [(7.9, ""), (8.1, GIVEN_UP)])
def test_less_is_better_where_the_goal_says_so(value: float, found: str) -> None:
    assert end_state(1, value, 4.0, 0.0, {**SEARCH, "goal": "min"}) == found


def full(number: int, why: str, **settings: object) -> TrialResult:
    return TrialResult(number, settings, FAILED, None, 1.0, why, float(number))


OOM = "OUT_OF_MEMORY: rank 1 was killed"


@pytest.mark.parametrize(
    ("settings", "left_out"),
    [
        ({"zero_stage": 0, "micro_batch": 4}, True),
        ({STAGE: 0, MICRO: 2}, True),
        ({"zero_stage": 0, "micro_batch": 1}, False),
        ({"zero_stage": 1, "micro_batch": 4}, False),
        ({"zero_stage": 0}, False),
    ],
)
def test_what_did_not_fit_into_memory_tells_of_larger_ones(settings: dict[str, int], left_out: bool) -> None:
    why = reason_to_leave_out(settings, [full(1, OOM, zero_stage=0, micro_batch=2)], SEARCH)
    assert why == ("a micro-batch of 2 was too large for the memory" if left_out else "")


def test_another_failure_says_nothing_of_the_others() -> None:
    failed = [full(1, "EXIT_CODE: rank 1 exited with code 3", micro_batch=1), full(2, OOM, zero_stage=0)]
    assert reason_to_leave_out({"micro_batch": 2}, failed, SEARCH) == ""


@pytest.mark.parametrize(
    ("told", "ended"),
    [
        ([(FAILED, None)] * 3, False),
        ([(FAILED, None), (MEASURED, 5.0), (MEASURED, 4.0)], False),
        ([(MEASURED, 5.0), (MEASURED, 4.0), (FAILED, None)], True),
        ([(MEASURED, 5.0), (MEASURED, 5.0), (GIVEN_UP, 9.0)], True),
        ([(MEASURED, 5.0), (FAILED, None), (MEASURED, 6.0)], False),
        ([(MEASURED, 5.0), (FAILED, None), (LEFT_OUT, None)], False),
    ],
)
def test_patience_ends_the_search_but_not_before_something_was_measured(
    told: list[tuple[str, float | None]], ended: bool
) -> None:
    why = reason_to_leave_out({"x": 1}, results(*told), {**SEARCH, "patience": 2})
    assert bool(why) == ended and reason_to_leave_out({"x": 1}, results(*told), SEARCH) == ""


def test_what_ended_last_counts_and_not_what_has_the_highest_number() -> None:
    told = [each._replace(ended=-each.ended) for each in results((MEASURED, 6.0), (FAILED, None), (MEASURED, 5.0))]
    assert reason_to_leave_out({"x": 1}, told, {**SEARCH, "patience": 1}) == ""


def test_settings_are_put_where_their_names_lead() -> None:
    base = {"zero_optimization": {"stage": 0, "overlap_comm": True}, "fp16": None}
    found = with_settings(base, {"zero_stage": 2, "fp16.enabled": True, "micro_batch": 4})
    assert found == {"zero_optimization": {"stage": 2, "overlap_comm": True}, "fp16": {"enabled": True}, MICRO: 4}
    assert base["zero_optimization"] == {"stage": 0, "overlap_comm": True}


@pytest.mark.parametrize(
    ("base", "given", "accumulation"),
    [
        ({"train_batch_size": 64, "gradient_accumulation_steps": 2}, {MICRO: 4}, None),
        ({"train_batch_size": 64, "gradient_accumulation_steps": 2}, {STAGE: 1}, 2),
        ({"train_batch_size": 64}, {MICRO: 4, "gradient_accumulation_steps": 8}, 8),
        ({"gradient_accumulation_steps": 2}, {MICRO: 4}, 2),
    ],
)
def test_steps_to_accumulate_follow_from_the_whole_batch(base: dict, given: dict, accumulation: int | None) -> None:
    assert with_settings(base, given).get("gradient_accumulation_steps") == accumulation


def test_deepspeed_tells_its_throughput_where_that_is_measured() -> None:
    assert with_reports({"steps_per_print": 99, "a": 1}, SEARCH) == {"steps_per_print": 5, "a": 1, "log_level": "info"}
    assert with_reports({"a": 1}, {**SEARCH, "metric": "loss"}) == {"a": 1}


DEEPSPEED = (
    "[2026-11-21 19:00:00,000] [INFO] [timer.py:264:stop] epoch=0/micro_step=20/global_step=20, "
    "RunningAvgSamplesPerSec=1234.5678, CurrSamplesPerSec=99.5, MemAllocated=0.0GB, MaxMemAllocated=0.0GB"
)


@pytest.mark.parametrize(
    ("metric", "line", "values"),
    [
        ("throughput", DEEPSPEED, [1234.5678]),
        ("throughput", "throughput=3", []),
        ("loss", "epoch 1/4  loss=0.25", [0.25]),
        ("loss", "loss = 1e-3, loss=2. loss=+.5 loss=-1E+2", [0.001, 2.0, 0.5, -100.0]),
        ("loss", "val_loss=1 my.loss=2 loss=nan loss=1.2.3 loss=1_0 loss=7x loss=1e-3x loss=", []),
        ("loss", "loss=inf loss=-inf loss=1e999 loss=1e30 loss=" + "9" * 400, []),
        ("tokens/s", "tokens/s=12", [12.0]),
    ],
)
def test_what_rank_0_tells(metric: str, line: str, values: list[float]) -> None:
    assert metric_values(metric, line) == values


def test_a_long_line_takes_no_longer_than_it_is() -> None:
    """A number of 1,000 digits, with a letter behind, took seconds."""
    began = time.process_time()
    assert metric_values("loss", "loss=" + "1" * 60_000 + "a") == []
    assert time.process_time() - began < 1


def test_the_table_has_a_row_for_each_trial_in_order() -> None:
    rows = [
        TrialResult(2, {"micro_batch": 8, "a": "x,y"}, FAILED, None, 2.0, 'said "no"', 9.0),
        TrialResult(1, {"micro_batch": 4, "a": True}, MEASURED, 1234567.8, 12.34, "", 5.0),
    ]
    head, *lines = csv.reader(results_csv(rows, "throughput").splitlines())
    assert head == ["trial", MICRO, "a", "throughput", "state", "seconds", "why"]
    assert lines == [
        ["1", "4", "true", "1.23457e+06", "measured", "12.3", ""],
        ["2", "8", "x,y", "", "failed", "2.0", 'said "no"'],
    ]
    assert result_text(rows[0], "throughput") == 'micro_batch=8 a=x,y  failed: said "no"'
    assert result_text(rows[1], "throughput") == "micro_batch=4 a=true  throughput=1.23457e+06"
