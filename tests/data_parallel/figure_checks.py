"""Compares what a script prints by itself with what it prints on ranks."""

from __future__ import annotations

import math
import os
import re

from forked_ranks import Output, run_alone, run_on_ranks
from loop_programs import Program

_NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[-+]?\d+)?|nan|inf")
_PLACE = re.compile(r"\.py:(\d+):")


def faults_of(program: Program, directory: str, ranks: int = 2) -> list[str]:
    """What is wrong: a figure that differs and whose lines no notice names, a notice where all figures are equal."""
    path = os.path.join(directory, "script.py")
    with open(path, "w") as file:
        file.write(program.source)
    alone, (first, *_) = run_alone(path), run_on_ranks(path, ranks)
    if alone.error or first.error:
        return ["alone: %s\non ranks: %s" % (alone.error, first.error)]
    return list(_compare(program, alone, first))


def _compare(program: Program, alone: Output, ranks: Output) -> list[str]:
    expected, found = alone.printed.splitlines(), ranks.printed.splitlines()
    if len(expected) != len(found):
        return ["%d lines instead of %d" % (len(found), len(expected))]
    named = named_lines(ranks)
    different = [pair for pair in zip(expected, found, strict=True) if not are_near(*pair)]
    faults = ["%s | %s" % pair for pair in different if not program.lines.get(pair[0].split()[0], set()) & named]
    if not different and named:
        faults += ["nothing differs, but: %s" % notice for notice in ranks.notices]
    return faults


def named_lines(output: Output) -> set[int]:
    """The lines of the script that notices name."""
    return {int(line) for notice in output.notices for line in _PLACE.findall(notice)}


def are_near(one: str, other: str, tolerance: float = 1e-8) -> bool:
    """Whether two lines are the same but for their numbers, and these are near to each other."""
    mine, yours = _NUMBER.findall(one), _NUMBER.findall(other)
    if _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        return one == other
    return all(
        math.isclose(float(a), float(b), rel_tol=tolerance, abs_tol=1e-3 * tolerance)
        for a, b in zip(mine, yours, strict=True)
    )
