"""What the tests' own runner makes of outcomes: what is tried again, what the closing line says, the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripts.testing.lanes import exit_code
from scripts.testing.results import (
    Outcome,
    Results,
    after_second_try,
    closing_line,
    progress_line,
    read_results,
    second_try,
)


def outcome(name: str, said: str = "passed", retry: bool = True) -> Outcome:
    return Outcome("tests/e2e/test_a.py::" + name, said, 1.0, retry)


def results(*outcomes: Outcome, left_out: int = 0) -> Results:
    return Results(outcomes, len(outcomes) + left_out)


def test_one_or_two_failures_are_tried_again_and_three_are_not() -> None:
    for count, expected in ((0, 0), (1, 1), (2, 2), (3, 0)):
        failed = [outcome(str(number), "failed") for number in range(count)]
        assert len(second_try(results(outcome("good"), *failed))) == expected


def test_nothing_is_tried_again_beside_a_failure_that_stays() -> None:
    assert second_try(results(outcome("a", "failed"), outcome("b", "failed", retry=False))) == []
    assert second_try(results(outcome("a", "failed"), outcome("b", "error"))) == []


def test_a_test_that_passes_alone_is_named_in_the_closing_line() -> None:
    both = results(outcome("good"), outcome("bad", "failed"))
    assert closing_line(both, 2.0) == "==== 1 failed, 1 passed in 2.00s ===="
    after = after_second_try(both, ["tests/e2e/test_a.py::bad"])
    assert closing_line(after, 2.0) == "==== 1 passed, 1 unstable: tests/e2e/test_a.py::bad in 2.00s ===="
    assert exit_code(after, [1, 0]) == 0


@pytest.mark.parametrize(
    ("outcomes", "codes", "expected"),
    [
        ([outcome("a")], [0, 5], 0),
        ([outcome("a", "failed")], [1], 1),
        ([outcome("a", "error")], [1], 1),
        ([outcome("a")], [1], 1),
        ([outcome("a")], [0, 2], 2),
        ([outcome("a")], [3], 3),
        ([], [5, 5, 5], 5),
        ([], [4], 4),
        ([outcome("a", "unstable")], [1], 0),
        ([outcome("a", "unstable"), outcome("b", "failed")], [1], 1),
    ],
)
def test_the_exit_code(outcomes: list[Outcome], codes: list[int], expected: int) -> None:
    assert exit_code(results(*outcomes), codes) == expected


def test_tests_for_which_there_was_no_time_are_counted() -> None:
    assert closing_line(results(outcome("a"), left_out=7), 1.0, "changed") == (
        "==== changed: 1 passed, 7 left out for want of time in 1.00s ===="
    )
    assert closing_line(results(), 0.0) == "==== no tests ran in 0.00s ===="


def test_progress_names_what_has_failed() -> None:
    assert progress_line("slurm", results(outcome("a"), left_out=2)) == "slurm 1 of 3"
    said = progress_line("slurm", results(outcome("a"), outcome("b", "failed")))
    assert said == "slurm 2 of 2, 1 failed: tests/e2e/test_a.py::b"


def test_what_pytest_wrote_is_read_and_a_missing_file_is_empty(tmp_path: Path) -> None:
    lines: list[dict[str, object]] = [{"selected": 3}, outcome("a")._asdict(), outcome("b", "failed")._asdict()]
    (tmp_path / "1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_results([str(tmp_path / "1.jsonl"), str(tmp_path / "2.jsonl")])
    assert ([each.outcome for each in found.outcomes], found.selected, found.left_out) == (["passed", "failed"], 3, 1)


def test_a_line_that_is_still_being_written_does_not_count(tmp_path: Path) -> None:
    whole = json.dumps(outcome("a")._asdict()) + "\n"
    (tmp_path / "1.jsonl").write_text(whole + json.dumps(outcome("b")._asdict())[:20])
    assert [each.id for each in read_results([str(tmp_path / "1.jsonl")]).outcomes] == [outcome("a").id]
