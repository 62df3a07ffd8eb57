"""One trial as its supervisor sees it, with a clock that is passed in."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from worldsize.agent.outcome.verdict import CANCEL, COMPLETE, FAILURE, TIMEOUT, Verdict
from worldsize.common.atomic_files import write_json, write_text
from worldsize.plan.array import Array, array_file, element_root
from worldsize.plan.plan import ArrayElement, Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure, Reason
from worldsize.wings.trials.agent.record import read_results, record_file, trial_record
from worldsize.wings.trials.agent.search import FAILED, GIVEN_UP, LEFT_OUT, MEASURED, TrialResult
from worldsize.wings.trials.agent.trial import MetricLog, Trial

SEARCH = {"config": "ds.json", "metric": "speed", "goal": "max", "steps": 1, "reports": 2, "timeout": 60, "patience": 1}


class Place:
    """An array of three trials, of which the second is looked at."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = str(tmp_path / "run")
        self.array = Array(
            "run", "t", "local", 1.0, 1, 1, 3, 1, tuple({"micro_batch": size} for size in (1, 2, 4)), SEARCH
        )
        os.makedirs(RunPaths(self.root).code)
        os.makedirs(RunPaths(self.root).outputs)
        for number in range(3):
            for directory in RunPaths(element_root(self.root, number)).directories():
                os.makedirs(directory)
        write_text(array_file(self.root), self.array.to_json())
        write_text(os.path.join(RunPaths(self.root).code, "ds.json"), "{}")
        self.paths = RunPaths(element_root(self.root, 1))
        options = {"search": {**SEARCH, "settings": {"micro_batch": 2}}}
        place = ArrayElement(1, 3, "run", 1)
        self.plan = Plan(
            "run_1", "t", "local", 1.0, 0, node_major_layout(1, 1), ("t",), {"TOKEN": "hidden-0815-xyz"},
            options=options, array=place, secrets=("TOKEN",),
        )  # fmt: skip
        self.trial = Trial(self.plan, self.paths)

    def end_sibling(self, state: str, value: float | None, why: str = "") -> None:
        write_json(record_file(element_root(self.root, 0)), trial_record(state, value, why, 1.0, 2.0))

    def say(self, text: str) -> None:
        with open(self.paths.rank_log(0), "a") as file:
            file.write(text)

    def finish(self, found: Verdict | None) -> Verdict | None:
        """As the supervisor ends it, but for a cancel, after which nothing is recorded."""
        concluded = self.trial.conclude(found)
        self.trial.write_record(concluded.failure if concluded else None)
        self.trial.write_outputs()
        return concluded

    def result(self) -> TrialResult | None:
        return next((each for each in read_results(self.root, self.array) if each.number == 2), None)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_it_ends_once_it_has_told_enough(place: Place) -> None:
    assert place.trial.prepare() is None and place.trial.deadline() is None and place.trial.tick(5.0) is None
    place.trial.start(100.0)
    place.say("speed=1\nspee")
    due = place.trial.deadline()
    assert due is not None and place.trial.tick(due) is None and place.trial.tick(due) is None
    place.say("d=2\n")
    assert place.trial.tick(due + 0.1) is None, "it is not due"
    complete = place.trial.tick(due + 1)
    assert complete == Verdict(COMPLETE, None) and place.trial.deadline() is None
    assert place.finish(complete) == complete
    found = place.result()
    assert found is not None and (found.state, found.value, found.why) == (MEASURED, 2.0, "")


def test_ranks_that_end_by_themselves_have_told_what_they_had_to(place: Place) -> None:
    place.trial.start(100.0)
    place.say("speed=3\n")
    assert place.finish(None) is None
    found = place.result()
    assert found is not None and (found.state, found.value) == (MEASURED, 3.0)
    assert json.loads(Path(place.root, "outputs", "ds.json").read_text()) == {"train_micro_batch_size_per_gpu": 2}


@pytest.mark.parametrize(("told", "why"), [("speed=1\n", COMPLETE), ("", TIMEOUT)])
def test_its_time_is_limited(place: Place, told: str, why: str) -> None:
    place.trial.start(100.0)
    place.say(told)
    assert place.trial.tick(159.9) is None
    found = place.trial.tick(160.2)
    assert found is not None and found.why == why
    if why == TIMEOUT:
        assert found.failure is not None and (found.failure.reason, found.code) == (Reason.TIME_LIMIT, 124)
        place.finish(found)
        result = place.result()
        assert result is not None and result.state == FAILED and "did not report its speed within 60 s" in result.why


def test_it_is_given_up_where_it_is_hopeless(place: Place) -> None:
    place.end_sibling(MEASURED, 10.0)
    assert place.trial.prepare() is None
    place.trial.start(100.0)
    place.say("speed=4\n")
    found = place.trial.tick(101.0)
    assert found == Verdict(COMPLETE, None) and place.finish(found) == found
    result = place.result()
    assert result is not None and (result.state, result.value) == (GIVEN_UP, 4.0)


def test_it_is_left_out_where_a_smaller_one_was_too_large(place: Place) -> None:
    place.end_sibling(FAILED, None, "OUT_OF_MEMORY: rank 0 was killed")
    failure = place.trial.prepare()
    assert failure is not None and failure.reason == Reason.LEFT_OUT
    place.finish(Verdict(FAILURE, failure))
    result = place.result()
    assert result is not None
    assert (result.state, result.value, result.why) == (
        LEFT_OUT,
        None,
        "a micro-batch of 1 was too large for the memory",
    )


def test_a_metric_that_never_comes_is_a_failure(place: Place) -> None:
    found = place.finish(None)
    assert found is not None and found.failure is not None and found.failure.message == "it never reported its speed"
    result = place.result()
    assert result is not None and result.state == FAILED


def test_a_failure_is_recorded_and_what_it_told_counts_no_more(place: Place) -> None:
    place.say("speed=1\nspeed=2\n")
    failed = Verdict(FAILURE, Failure(Reason.EXIT_CODE, "it broke"))
    assert place.finish(failed) == failed
    result = place.result()
    assert result is not None and result.value is None and result.why == "EXIT_CODE: it broke"


def test_a_new_attempt_removes_the_record_of_the_former(place: Place) -> None:
    place.finish(None)
    assert place.result() is not None and place.trial.prepare() is None and place.result() is None


def test_a_cancelled_trial_concludes_as_cancelled(place: Place) -> None:
    assert place.trial.conclude(Verdict(CANCEL, None)) == Verdict(CANCEL, None)


def test_outputs_that_cannot_be_written_end_no_trial(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkdir(os.path.join(place.root, "outputs", "trials.csv"))
    place.say("speed=1\n")
    assert place.finish(None) is None and place.result() is not None
    assert "trial 2: " in capsys.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", None])
def test_a_configuration_that_is_none_keeps_the_ranks_from_starting(place: Place, text: str | None) -> None:
    file = os.path.join(RunPaths(place.root).code, "ds.json")
    os.unlink(file)
    if text is not None:
        write_text(file, text)
    failure = place.trial.prepare()
    assert failure is not None and failure.reason == Reason.STORAGE and "ds.json" in failure.message


def test_a_run_of_its_own_is_no_trial(place: Place, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="an element of an array"):
        Trial(place.plan, RunPaths(str(tmp_path / "alone")))


def test_a_log_of_any_size(tmp_path: Path) -> None:
    path = tmp_path / "log"
    log = MetricLog(str(path), "m")
    assert log.new_values() == []
    with path.open("wb") as file:
        file.write(b"m=1\nm=2")
        file.flush()
        assert log.new_values() == [1.0]
        file.write(b"x\n\xff\x00 m=3\n" + b"y" * 200_000 + b" m=4\nm=5\n")
        file.flush()
        assert log.new_values() == [3.0, 5.0], "a line without an end holds nothing"
        file.write(b"m=6" + b"\nm=7 z" * 1_000_000 + b"\nm=8\nm=9")
        file.flush()
        found = log.new_values()
        assert set(found[:-1]) == {7.0} and found[-1] == 8.0 and len(found) < 200_000
        file.write(b"1\n")
        file.flush()
        assert log.new_values() == [91.0]


def test_a_log_that_is_none(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "log")
    assert MetricLog(str(tmp_path / "log"), "m").new_values() == []
