"""What became of the tests of one command, and the line that says so."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MOST_UNSTABLE = 2
"""More failures than this are no accident, so none is tried again."""

UNSTABLE = "unstable"


class Outcome(NamedTuple):
    """One test that ran.

    outcome   pytest's word, or `unstable`: it failed, and passed when tried alone
    text      how it failed, as pytest prints it
    """

    id: str
    outcome: str
    seconds: float
    retry: bool
    text: str = ""


class Results(NamedTuple):
    """All tests of a command; `selected` is how many should have run."""

    outcomes: Sequence[Outcome]
    selected: int

    @property
    def failed(self) -> list[Outcome]:
        return [each for each in self.outcomes if each.outcome in ("failed", "error")]

    @property
    def complete(self) -> bool:
        """Whether some were selected, and each has an outcome."""
        return bool(self.selected) and not self.left_out

    @property
    def left_out(self) -> int:
        """Selected, and not begun for want of time."""
        return max(self.selected - sum(each.outcome != "error" for each in self.outcomes), 0)


def read_results(paths: Iterable[str]) -> Results:
    """What several runs of pytest have written; a file that is missing holds nothing.

    A file of tests that cannot be imported is an error of each run, and counted once. A last line without its end is
    still being written, or the disk was full, and does not count.
    """
    outcomes: list[Outcome] = []
    selected = 0
    for path in paths:
        if not os.path.exists(path):
            continue
        with open(path, encoding="utf-8") as file:
            for line in (json.loads(text) for text in file if text.endswith("\n")):
                if "selected" in line:
                    selected += line["selected"]
                elif line["outcome"] != "error" or Outcome(**line) not in outcomes:
                    outcomes.append(Outcome(**line))
    return Results(outcomes, selected)


def second_try(results: Results) -> list[str]:
    """The failed tests to run once more, alone: all of them or none, as one that stays failed decides the command."""
    failed = results.failed
    if len(failed) > MOST_UNSTABLE or not all(each.retry and each.outcome == "failed" for each in failed):
        return []
    return [each.id for each in failed]


def after_second_try(results: Results, passed: Iterable[str]) -> Results:
    """The results where a failed test that has now passed is called unstable."""
    again = set(passed)
    outcomes = [each._replace(outcome=UNSTABLE) if each.id in again else each for each in results.outcomes]
    return results._replace(outcomes=outcomes)


def closing_line(results: Results, seconds: float, name: str = "") -> str:
    """As pytest closes, with the names of unstable tests: `==== 1480 passed, 1 unstable: tests/… in 600.00s ====`."""
    counts = Counter("errors" if each.outcome == "error" else each.outcome for each in results.outcomes)
    words = ["%d %s" % (counts[key], key) for key in ("failed", "errors", "passed", "skipped") if counts[key]]
    if results.left_out:
        words.append("%d left out for want of time" % results.left_out)
    unstable = [each.id for each in results.outcomes if each.outcome == UNSTABLE]
    if unstable:
        words.append("%d unstable: %s" % (len(unstable), " ".join(unstable)))
    said = ", ".join(words) or "no tests ran"
    return "==== %s%s in %.2fs ====" % (name and name + ": ", said, seconds)


def progress_line(name: str, results: Results) -> str:
    """How far some tests are: `slurm 40 of 190, 1 failed: tests/…`."""
    said = "%s %d of %d" % (name, len(results.outcomes), results.selected)
    failed = results.failed
    return "%s, %d failed: %s" % (said, len(failed), " ".join(each.id for each in failed)) if failed else said


def table_of_parts(results: Results, part_of: dict[str, str]) -> list[str]:
    """A line for each part: its tests, and the seconds that they took one after the other."""
    tests: Counter[str] = Counter()
    seconds: defaultdict[str, float] = defaultdict(float)
    for each in results.outcomes:
        part = part_of.get(each.id, "?")
        tests[part] += 1
        seconds[part] += each.seconds
    return ["%-14s %5d tests %7.0f s" % (part, tests[part], seconds[part]) for part in sorted(tests)]
