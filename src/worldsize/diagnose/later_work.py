"""Whether a rank went on after it had said something: then that does not tell why it ended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from worldsize.diagnose.evidence import Line, RankEnd

_WORKING, _LINES_OF_WORK, _LINES_LATER = 30.0, 5, 30
"""A rank that wrote so many lines more than so many seconds after another line went on after it; or, at any time, so
many lines that are none of a stack or of NCCL's."""

_OF_STACK = re.compile(r"\s|Traceback|.*(?:NCCL|frame #|0x[0-9a-f]{4})|\[[\w.-]+:\d+\]")

_OF_EXCEPTION = 1
"""The code of a Python that an exception has ended."""


def has_ended_rank(time: float, end: RankEnd, log: Sequence[Line]) -> bool:
    """Return whether it was an exception of this time that ended the rank: a shell may go on after a program that
    failed, and end with a code of its own. A time of 0 is none."""
    if not time:
        return end.code != 0
    if end.code == 0 or _went_on_after(time, log):
        return False
    return end.code == _OF_EXCEPTION or end.stopped or end.ended is None or end.ended - time < _WORKING


def _went_on_after(time: float, log: Sequence[Line]) -> bool:
    """Return whether the rank wrote more than its last words long after this time."""
    last = log[-_LINES_OF_WORK].time if len(log) >= _LINES_OF_WORK else None
    return last is not None and last - time > _WORKING


def is_past(index: int, log: Sequence[Line]) -> bool:
    """Return whether the rank went on after this line of its log: then that says nothing of its end."""
    time = log[index].time
    if time is not None and _went_on_after(time, log):
        return True
    later = (line for line in log[index + 1 :] if not _OF_STACK.match(line.text))
    return next(islice(later, _LINES_LATER - 1, None), None) is not None
