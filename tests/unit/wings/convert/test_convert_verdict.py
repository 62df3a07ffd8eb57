"""What the records of a training's first steps tell of its conversion."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from worldsize.wings.convert.check.records import (
    ERROR,
    FINISHED,
    STEPS,
    TIMED_OUT,
    TIMEOUT,
    Backward,
    Place,
    Record,
    Step,
    read_record,
)
from worldsize.wings.convert.check.trials import Trials, is_too_short
from worldsize.wings.convert.check.verdict import CONVERTED, ORIGINAL, Finding, judge

LINE = Place("train.py", 7)
Losses = Sequence[float]


def record(
    losses: Losses, samples: Sequence[int], gradient: float = 3.0, change: float = 0.5, weights: float = 9.0,
    is_random: bool = False,
) -> Record:  # fmt: skip
    """A record with a step for each loss, and so many samples in each."""
    steps = [
        Step(gradient, weights, change, (Backward(LINE, loss, tuple(map(str, range(count)))),))
        for loss, count in zip(losses, samples, strict=True)
    ]
    return Record(STEPS, "", None, tuple(steps), is_random=is_random)


WHOLE = record([2.0, 1.0], [8, 8])
PARTS = (record([1.5, 1.2], [4, 4]), record([2.5, 0.8], [4, 4]))


def test_means_and_sums_of_the_parts_losses_are_the_whole_batchs() -> None:
    for parts in (PARTS, (record([0.5, 0.4], [4, 4]), record([1.5, 0.6], [4, 4]))):
        verdict = judge(Trials(WHOLE, (WHOLE,), parts))
        assert verdict.findings == () and verdict.obstacle is None
        assert verdict.summary == (
            "losses, gradients and weights of 2 steps on 2 ranks equal those of one process; "
            "each rank worked on 8 of 16 samples"
        )


@pytest.mark.parametrize(
    ("whole", "parts", "said"),
    [
        (WHOLE, (WHOLE, WHOLE), "each rank works on all samples, 16 in 2 steps: nothing is divided"),
        (record([2, 1], [0, 0]), (record([2, 1], [0, 0]),) * 2, "each rank computes all of each batch"),
        (WHOLE, (PARTS[0], record([2.5, 0.8], [4, 4], weights=9.1)), "weights differ after step 1"),
        (
            WHOLE,
            tuple(each._replace(steps=each.steps[:1]) for each in PARTS),
            "it ends after 1 steps, and the original",
        ),
        (WHOLE, (record([9, 9], [4, 4]),) * 2, "the loss: 2 by itself, 9 on 2 ranks (78 %)"),
        (WHOLE, (record([2, 1], [4, 4], gradient=6),) * 2, "gradients of step 1: 3 by itself, 6 on 2"),
        (WHOLE, (record([2, 1], [4, 4], change=0.6),) * 2, "weights of step 1: 0.5 by itself, 0.6 on 2"),
    ],
)
def test_what_is_wrong_is_an_error_with_its_line(whole: Record, parts: tuple[Record, ...], said: str) -> None:
    verdict = judge(Trials(whole, (whole,), parts))
    assert said in verdict.findings[0].text and verdict.findings[0].is_error and verdict.summary == "", verdict
    assert verdict.findings[0].place == LINE


def test_slight_differences_and_undivided_batches_are_said() -> None:
    near = tuple(record([2.02, 1.0], [4, 4]) for _ in range(2))
    verdict = judge(Trials(WHOLE, (WHOLE,), near))
    assert [(each.is_error, each.place) for each in verdict.findings] == [(False, LINE)]
    assert "samples weigh differently" in verdict.findings[0].text and verdict.summary.startswith("weights are equal")
    odd = record([2.0, 1.0], [5, 5])
    verdict = judge(Trials(odd, (odd,), (odd, odd)))
    assert verdict.findings == (
        Finding(False, "batches of 5 samples are not divided by 2 ranks: each works on all of them", ORIGINAL, LINE),
    )


def test_random_numbers_of_each_rank_are_no_error_and_no_praise() -> None:
    whole = record([2.0, 1.0], [8, 8], is_random=True)
    verdict = judge(Trials(whole, (whole,), (record([9, 9], [4, 4]),) * 2))
    assert not verdict.findings[0].is_error and "random numbers" in verdict.findings[0].text
    assert verdict.summary.startswith("weights are equal on 2 ranks")


@pytest.mark.parametrize(
    ("end", "said"),
    [(ERROR, "the original does not run: why"), (TIMEOUT, "makes no step"), (FINISHED, "arguments, after --?")],
)
def test_an_original_without_a_step_cannot_be_checked(end: str, said: str) -> None:
    verdict = judge(Trials(Record(end, "why", LINE)))
    assert verdict.obstacle is not None and said in verdict.obstacle.text and verdict.obstacle.place == LINE


def test_a_wait_is_what_happened_and_not_the_error_that_follows_from_it() -> None:
    failed = (Record(ERROR, "Connection closed by peer", LINE), Record(TIMEOUT, "", Place("train.py", 9)))
    (finding,) = judge(Trials(WHOLE, (WHOLE,), failed)).findings
    assert finding.text == "on 2 ranks it does not reach 2 steps in time" and finding.place == Place("train.py", 9)
    killed = (Record(ERROR, "", None), Record(ERROR, "NameError: x", LINE))
    (finding,) = judge(Trials(WHOLE, (WHOLE,), killed)).findings
    assert finding == Finding(True, "on 2 ranks it does not run: NameError: x", CONVERTED, LINE)


def test_a_version_with_too_little_time_need_not_be_one_that_waits() -> None:
    given_up = (Record(TIMEOUT, "", LINE),)
    trials = Trials(WHOLE, given_up, too_slow="the original alone took 20 of 60 s")
    verdict = judge(trials)
    assert verdict.obstacle is not None and not verdict.findings and not verdict.summary
    assert verdict.obstacle.text.endswith("the original alone took 20 of 60 s; --timeout SECONDS allows more")
    assert judge(trials._replace(too_slow="")).findings[0].is_error


def test_a_version_is_stuck_only_if_it_had_thrice_the_time_of_the_original() -> None:
    assert is_too_short(given=20, taken=10) and is_too_short(given=29.9, taken=10)
    assert not is_too_short(given=30, taken=10) and not is_too_short(given=50, taken=4)


def test_a_process_that_was_given_up_before_its_script_began_has_waited(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("a warning of a library\n\n%snot yet in the script\n" % TIMED_OUT)
    record = read_record(str(tmp_path / "none.json"), str(log), str(tmp_path), "ddp.py")
    assert record.end == TIMEOUT and record.place is None


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '{"error": 3}', '{"end": "steps", "error": null, "steps": [3]}'])
def test_a_damaged_record_is_none(tmp_path: Path, damage: str) -> None:
    (tmp_path / "record").write_text(damage)
    (tmp_path / "log").write_text("Segmentation fault\n")
    found = read_record(str(tmp_path / "record"), str(tmp_path / "log"), "/copy", "ddp.py")
    assert found == Record(ERROR, "Segmentation fault", None)


def test_where_a_process_waited_stands_in_its_log(tmp_path: Path) -> None:
    lines = ("usr/torch.py", 3), ("copy/ddp.py", 9), ("copy/lib/loop.py", 21), ("copy/train.py", 5)
    traced = "".join('  File "/%s", line %d in f\n' % line for line in lines)
    (tmp_path / "log").write_text("epoch 1\nTimeout (0:00:20)!\nThread 0x1 (most recent call first):\n" + traced)
    found = read_record(str(tmp_path / "none"), str(tmp_path / "log"), "/copy", "ddp.py")
    assert found == Record(TIMEOUT, "", Place("lib/loop.py", 21))


def test_a_record_is_read(tmp_path: Path) -> None:
    backward = {"line": ["train.py", 7], "loss": 2.0, "samples": ["3", "5"]}
    step = {"gradient": 1.0, "weights": 2.0, "change": 3.0, "backwards": [backward]}
    flags = {"random": True, "batch_norm": False, "low_precision": True}
    text = json.dumps({"end": "steps", "error": None, "steps": [step], "backwards": [], "flags": flags})
    (tmp_path / "record").write_text(text)
    found = read_record(str(tmp_path / "record"), "", "/copy", "ddp.py")
    steps = (Step(1.0, 2.0, 3.0, (Backward(LINE, 2.0, ("3", "5")),)),)
    assert found == Record(STEPS, "", None, steps, (), is_random=True, has_low_precision=True)
