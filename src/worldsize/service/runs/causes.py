"""The causes for which runs of an array failed, and the runs that failed for each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.common.named_tuple import NamedTuple
from worldsize.diagnose.cause_record import UNKNOWN
from worldsize.diagnose.explanation import Explanation
from worldsize.service.runs.array import RunArray
from worldsize.service.runs.explanation import explain_run
from worldsize.service.runs.run import Run
from worldsize.state.records import Status


class RunsOfCause(NamedTuple):
    """The runs that failed for one cause: their ids in order, and the explanation of the first."""

    runs: tuple[str, ...]
    explanation: Explanation


def causes_of_runs(found: Run | RunArray) -> list[RunsOfCause]:
    """Return the failed runs of a run or an array grouped by cause, as a list of RunsOfCause with the most frequent
    cause first. Two causes are the same if their ids and, apart from numbers, their sentences are equal. Unknown causes
    are the same only if their whole sentences are equal, including the exit code or signal."""
    groups: dict[tuple[str, str], list[tuple[str, Explanation]]] = {}
    for run, status in _ended_runs(found):
        explanation = explain_run(run.paths, run.plan, status) if run.has_plan() else None
        if explanation is not None:
            cause = explanation.cause
            words = cause.sentence if cause.id == UNKNOWN else re.sub("[0-9]+", "#", cause.sentence)
            groups.setdefault((cause.id, words), []).append((run.id, explanation))
    ordered = sorted(groups.values(), key=lambda group: -len(group))
    return [RunsOfCause(tuple(name for name, _ in group), group[0][1]) for group in ordered]


def _ended_runs(found: Run | RunArray) -> Iterator[tuple[Run, Status]]:
    for run, status in zip(found.runs(), found.statuses(), strict=True):
        if status.final:
            yield run, status
