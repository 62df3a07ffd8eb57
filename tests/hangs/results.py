"""What runs of the corpus have shown, a line of JSON each in `results.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PATH = Path(__file__).with_name("results.jsonl")

RIGHT, KIND, WRONG, UNKNOWN, ALIVE = "right", "right, other way", "WRONG", "unknown", "not seen"
RIGHTLY_UNKNOWN = "rightly unknown"
"""Nobody can say which rank it is, and nobody is named."""

OUTCOMES = (RIGHT, KIND, RIGHTLY_UNKNOWN, UNKNOWN, ALIVE, WRONG)
NAMED = (RIGHT, KIND)

LOCAL, SLURM, DEFAULT = "local", "Slurm", "local, with the default limit"
PLACES = (LOCAL, SLURM, DEFAULT)


class Outcome(NamedTuple):
    """How a run was judged.

    where     one of PLACES
    case      of the corpus
    outcome   one of OUTCOMES; of a healthy run RIGHT or WRONG
    place     whether the line was right; None where there is none
    seconds   from the end of the limit to the verdict; None without a verdict
    standing  of the verdict
    said      its sentence, or else what became of the run
    """

    where: str
    case: str
    outcome: str
    place: bool | None = None
    seconds: float | None = None
    standing: str = ""
    said: str = ""


def read_results(path: Path = PATH) -> dict[tuple[str, str], Outcome]:
    """By place and case."""
    lines = path.read_text().splitlines() if path.exists() else []
    found = [Outcome(**json.loads(line)) for line in lines]
    return {(each.where, each.case): each for each in found}


def write_results(outcomes: Iterable[Outcome], path: Path = PATH) -> None:
    """Write them in order, so that a run of some changes the lines of these alone."""
    ordered = sorted(outcomes, key=lambda each: (PLACES.index(each.where), each.case))
    path.write_text("".join(json.dumps(each._asdict()) + "\n" for each in ordered))
