"""Texts of exceptions: the parts that explain a failure, and the exceptions from which they were raised, as the log
shows them."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.diagnose.evidence import Line

_TRACEBACK = "Traceback (most recent call last):"
_CAUSED = "The above exception was the direct cause of the following exception:"

_LONGEST = 4000
"""Maximum number of characters of an exception from which another one was raised."""


def without_frames(text: str) -> str:
    """Return `text`, the text of an exception, without the stack frames of the tracebacks in it, such as those of a
    DataLoader's workers. The code in the frames does not explain what happened."""
    kept, is_inside = [], False
    for line in text.split("\n"):
        is_frame = is_inside and line[:1].isspace()
        is_inside = is_frame or line.endswith(_TRACEBACK)
        if not is_inside:
            kept.append(line)
    return "\n".join(kept)


def direct_cause(text: str, log: Sequence[Line]) -> str:
    """Return the text of the exception from which the uncaught exception `text` was raised (`raise … from …`), as the
    traceback in the rank's `log` shows it; "" if there is none. `log` contains only lines that are not empty."""
    first = text.partition("\n")[0].rstrip()
    lines = [line.text.rstrip() for line in log]
    end = next((index for index in reversed(range(len(lines))) if first and lines[index] == first), 0)
    at = next((index for index in reversed(range(end)) if lines[index] == _CAUSED), None)
    if at is None or not all(line[:1].isspace() or line == _TRACEBACK for line in lines[at + 1 : end]):
        return ""
    begin = next((index for index in reversed(range(at)) if lines[index][:1].isspace()), -1)
    return "\n".join(lines[begin + 1 : at])[:_LONGEST]
