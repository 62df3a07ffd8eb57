"""Parser for the records that `inrank/recorder.py` writes about the training of one process."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from worldsize.common.atomic_files import read_if_possible, read_tail

STEPS, FINISHED, ERROR, TIMEOUT = "steps", "finished", "error", "timeout"
TIMED_OUT = "Timeout ("
"""The text that `faulthandler` writes to the log of a timed-out process, before the traceback."""
_TRACED = re.compile(r'File "(.+)", line (\d+)')


class Place(NamedTuple):
    """A line of a file of the project. The path is relative to the project."""

    path: str
    line: int


class Backward(NamedTuple):
    """A backward call. `loss` is the sum of the tensor whose `backward` was called. `samples` are those that a loader
    fetched for it."""

    place: Place | None
    loss: float
    samples: tuple[str, ...]


class Step(NamedTuple):
    """A step of an optimizer: the sums of the absolute values of its gradients, of its weights, and of the change of
    the weights since the beginning."""

    gradient: float
    weights: float
    change: float
    backwards: tuple[Backward, ...]


class Record(NamedTuple):
    """The record of one process. `end` is STEPS, FINISHED (the script ended by itself), ERROR or TIMEOUT. `text` and
    `place` are those of the error, or `place` is where the process waited. `backwards` are those after the last step.
    """

    end: str
    text: str
    place: Place | None
    steps: tuple[Step, ...] = ()
    backwards: tuple[Backward, ...] = ()
    is_random: bool = False
    has_batch_norm: bool = False
    has_low_precision: bool = False


def read_record(path: str, log: str, folder: str, helpers: str) -> Record:
    """Read the Record of a process of a trial from the file `path`. If there is none, derive one from the process's
    log, which shows where the process was. `folder` is the copy of the project in which it ran, and `helpers` is the
    path of convert's helpers in that copy."""
    try:
        return _record(json.loads(read_if_possible(path)))
    except (ValueError, KeyError, TypeError, AttributeError):
        return _without_record(read_tail(log, 20_000).decode(errors="replace"), folder, helpers)


def _record(found: Mapping[str, Any]) -> Record:
    error = found["error"] or {"text": "", "line": None}
    return Record(
        {"steps": STEPS, "backwards": STEPS, "finished": FINISHED}.get(found["end"], ERROR),
        str(error["text"]),
        _place(error["line"]),
        tuple(_step(each) for each in found["steps"]),
        tuple(_backward(each) for each in found["backwards"]),
        bool(found["flags"]["random"]),
        bool(found["flags"]["batch_norm"]),
        bool(found["flags"]["low_precision"]),
    )


def _step(found: Mapping[str, Any]) -> Step:
    gradient, weights, change = (float(found[name]) for name in ("gradient", "weights", "change"))
    return Step(gradient, weights, change, tuple(_backward(each) for each in found["backwards"]))


def _backward(found: Mapping[str, Any]) -> Backward:
    return Backward(_place(found["line"]), float(found["loss"]), tuple(map(str, found["samples"])))


def _place(found: Any) -> Place | None:
    return Place(str(found[0]), int(found[1])) if found else None


def _without_record(log: str, folder: str, helpers: str) -> Record:
    """Return a Record, derived from the text of its log, of a process that was stopped while it waited, or that ended
    without writing a record. Its place is the first traced line in the project's copy `folder`."""
    is_timeout = TIMED_OUT in log
    lines = log[log.rindex(TIMED_OUT) :].splitlines() if is_timeout else log.strip().splitlines()
    traced = (_TRACED.search(line) for line in lines)
    places = [Place(os.path.relpath(match[1], folder), int(match[2])) for match in traced if match is not None]
    inside = [place for place in places if not place.path.startswith(os.pardir) and place.path != helpers]
    text = "" if is_timeout or not lines else lines[-1][:500]
    return Record(TIMEOUT if is_timeout else ERROR, text, inside[0] if inside else None)
