"""Checks of whether a rank worked on after a message. Such a message does not explain why the rank ended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from worldsize.diagnose.evidence import Line, RankEnd

_WORKING, _LINES_OF_WORK, _LINES_LATER = 30.0, 5, 30
"""Limits for work after a line: a rank worked on if it wrote `_LINES_OF_WORK` lines more than `_WORKING` seconds later,
or, at any time, `_LINES_LATER` lines that belong neither to a stack nor to NCCL."""

_OF_STACK = re.compile(r"\s|Traceback|.*(?:NCCL|frame #|0x[0-9a-f]{4})|\[[\w.-]+:\d+\]")

_OF_EXCEPTION = 1
"""Exit code of a Python process that an exception has ended."""


def has_ended_rank(time: float, end: RankEnd, log: Sequence[Line]) -> bool:
    """Return whether an exception that the rank raised at `time` (Unix seconds) ended the rank, from the rank's `end`
    and its `log`. A shell may work on after a program that failed, and end with a code of its own. A time of 0 means
    that it is unknown; then any exit code except 0 counts."""
    if not time:
        return end.code != 0
    if end.code == 0 or _went_on_after(time, log):
        return False
    return end.code == _OF_EXCEPTION or end.stopped or end.ended is None or end.ended - time < _WORKING


def _went_on_after(time: float, log: Sequence[Line]) -> bool:
    """Return whether the rank wrote at least 5 lines to its `log` more than 30 seconds after `time`."""
    last = log[-_LINES_OF_WORK].time if len(log) >= _LINES_OF_WORK else None
    return last is not None and last - time > _WORKING


def is_past(index: int, log: Sequence[Line]) -> bool:
    """Return whether the rank worked on after the line `log[index]` of its log, so that the line does not explain the
    rank's end. A rank worked on if it wrote several lines long after that line, or many lines at any time."""
    time = log[index].time
    if time is not None and _went_on_after(time, log):
        return True
    later = (line for line in log[index + 1 :] if not _OF_STACK.match(line.text))
    return next(islice(later, _LINES_LATER - 1, None), None) is not None
