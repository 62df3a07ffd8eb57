"""Many elements of one job array in few words."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.compute.slurm.accounting import COLUMNS, account_rows
from worldsize.compute.slurm.job_rows import SEPARATOR, fold_job_ids


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ([], []),
        (["7", "9"], ["7", "9"]),
        (["7_3"], ["7_[3]"]),
        (["7_0", "7_1", "7_2", "7_5", "9"], ["9", "7_[0-2,5]"]),
        (["8_1", "7_2", "7_1", "7_1"], ["8_[1]", "7_[1-2]"]),
    ],
)
def test_words(jobs: list[str], words: list[str]) -> None:
    assert fold_job_ids(jobs) == words


@given(st.sets(st.integers(0, 9999), max_size=2000))
def test_all_of_them_and_no_others(numbers: set[int]) -> None:
    words = fold_job_ids("12_%d" % number for number in numbers)
    assert all(len(word) < 500 for word in words)
    found: list[int] = []
    for word in words:
        inside = re.fullmatch(r"12_\[([\d,-]+)\]", word)
        assert inside
        for part in inside[1].split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    assert sorted(found) == sorted(numbers) and len(found) == len(numbers)


def test_what_was_cancelled_with_its_array_has_the_arrays_record() -> None:
    """An array that was cancelled before Slurm had split it is one record, without a number of an element."""
    known = {"7": "CANCELLED by 0", "8_1": "COMPLETED"}

    def sacct(argv: Sequence[str]) -> str:
        assert argv[-1] == "--jobs=7,8"
        values = {"JobName": "run", "Partition": "main", "ExitCode": "0:0"}
        cells = [{**values, "JobID": job, "State": state} for job, state in known.items()]
        lines = [[each.get(column, "") for column in COLUMNS] for each in cells]
        return "".join(SEPARATOR.join(line) + SEPARATOR + "\n" for line in lines)

    rows = account_rows(["7_3", "7_4", "8_1", "8_2"], sacct)
    assert {job: row.state for job, row in rows.items()} == {"7_3": "CANCELLED", "7_4": "CANCELLED", "8_1": "COMPLETED"}
    assert all(job == row.job for job, row in rows.items())
