"""A hang: the verdict of the latest look at a silent run, read from `hang.json` of its attempt, and whether the run has
resumed.

Other users or ranks may have written the file. A file that is not as the head's agent writes it counts as no hang.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import time

from worldsize.common.atomic_files import printable_text, read_if_possible
from worldsize.common.json_values import PARSE_ERRORS, is_number
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import read_events
from worldsize.state.records import RunState

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

ALIVE_STATES = frozenset((RunState.RUNNING, RunState.STOPPING))
"""The states in which a run can hang."""

SILENT = "no sign of life for "
"""The beginning of the message with which the watchdog ends a run."""

WITNESSES = {
    "watchdog": "NCCL's watchdog",
    "process": "the processes",
    "stacks": "the stacks",
    "recorder": "the Flight Recorder",
    "ras": "NCCL RAS",
}
"""The titles of the witnesses, by their names in `hang.json`."""

_STANDINGS = ("established", "supported", "unknown")
_KINDS = ("H1", "H2", "H3", None)
_MOST_BYTES = 4 << 20
_MOST_WITNESSES = 20
_LONGEST = 2000
"""Number of characters of a text that are kept."""

_LAST_TIME = 2.0**36
"""The latest accepted time, in Unix seconds. Later values could not be shown as a time."""


class Hang(NamedTuple):
    """The verdict why a run hangs. All texts are printable, on one line, and not masked.

    standing   "established", "supported" or "unknown"; if it is unknown, no rank is named
    sentence   the verdict in words, without a full stop
    kind       "H1": the ranks did not enter a call that others wait in, "H2": they entered another one, "H3": they did
               not leave it; None if no rank is named
    ranks      the ranks that keep the others waiting, ascending; each is a rank of the run
    since      when the last of the others began to wait, else when the run fell silent; Unix seconds
    place      where the ranks are: file, line, function; None if they are not in one place
    witnesses  the witnesses that name the ranks, by the names in WITNESSES or those of a newer release
    missing    the witnesses that name no rank, each with the reason
    groups     ranks with equal stacks, a line for each group, the smallest first
    resumed    when the run was seen to continue after the verdict, before it was ended; None if it was not
    """

    standing: str
    sentence: str
    kind: str | None
    ranks: tuple[int, ...]
    since: float
    place: tuple[str, int, str] | None = None
    witnesses: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    groups: tuple[str, ...] = ()
    resumed: float | None = None

    @property
    def since_text(self) -> str:
        """The local time of day of `since`, "14:03:11"."""
        return time.strftime("%H:%M:%S", time.localtime(self.since))


def read_hang(paths: RunPaths, world_size: int) -> Hang | None:
    """Return the hang that the watchdog's latest look at the ranks of the attempt in `paths` has found, from hang.json.
    None if it found none, if there was no look, or if the file cannot be read or is damaged. No exception is raised."""
    data = read_if_possible(paths.judged, _MOST_BYTES + 1)
    if not data or len(data) > _MOST_BYTES:
        return None
    try:
        value = json.loads(data)
        hang = _hang_of(value, world_size)
        return None if hang is None else hang._replace(resumed=_resumed(paths, _time(value["judged_at"])))
    except PARSE_ERRORS:
        return None


def stuck_text(seconds: float, sentence: str) -> str:
    """Return the text of the notice about a run that hangs for `seconds`, which is also the message with which the
    watchdog ends the run. `sentence` is the verdict why it hangs."""
    return f"{SILENT}{seconds:.0f} s: {sentence}"


def with_texts(hang: Hang, change: Callable[[str], str]) -> Hang:
    """Return `hang` with the function `change` applied to each of its texts (sentence, place, missing, groups), for
    instance to mask secrets."""
    place = hang.place
    return hang._replace(
        sentence=change(hang.sentence),
        place=None if place is None else (change(place[0]), place[1], change(place[2])),
        missing=tuple((name, change(why)) for name, why in hang.missing),
        groups=tuple(map(change, hang.groups)),
    )


def _hang_of(value: Any, world_size: int) -> Hang | None:
    """Return the Hang that the parsed JSON `value` of hang.json describes; None if the value describes no hang. Raise
    one of PARSE_ERRORS for a value that the head's agent does not write."""
    if value["alive"] is not False:
        return None
    standing, kind, since = value["standing"], value["kind"], value["since"]
    if standing not in _STANDINGS or kind not in _KINDS:
        raise ValueError("its standing or its kind is unknown")
    silent_since = _time(value["silent_since"])
    sentence = _text(value["sentence"])
    if not sentence:
        raise ValueError("it is empty")
    return Hang(
        standing,
        sentence,
        kind,
        _ranks(value["ranks"], world_size),
        silent_since if since is None else _time(since),
        _place(value["place"]),
        tuple(map(_text, _list(value["witnesses"])[:_MOST_WITNESSES])),
        tuple((_text(name), _text(why)) for name, why in list(value["missing"].items())[:_MOST_WITNESSES]),
        tuple(map(_text, _list(value["groups"]))),
    )


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("it is not a list")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("it is not text")
    return printable_text(value[:_LONGEST])


def _ranks(value: Any, world_size: int) -> tuple[int, ...]:
    if not all(type(rank) is int and 0 <= rank < world_size for rank in _list(value)):
        raise ValueError("they are not ranks of the run")
    return tuple(sorted(set(value)))


def _place(value: Any) -> tuple[str, int, str] | None:
    if value is None:
        return None
    file, line, function = value
    if type(line) is not int or not 0 <= line < 1 << 31:
        raise ValueError("it is not a line")
    return _text(file), line, _text(function)


def _time(value: Any) -> float:
    if not is_number(value) or not 0 < value < _LAST_TIME:
        raise ValueError("it is not a time")
    return float(value)


def _resumed(paths: RunPaths, judged_at: float) -> float | None:
    """Return the Unix time at which the head's agent saw a hanging run continue after the verdict of `judged_at`; None
    if it did not, or only while ranks were being ended."""
    for event in read_events(paths, 0):
        kind, moment = event.get("event"), event.get("time")
        if not isinstance(moment, (int, float)) or not is_number(moment) or moment < judged_at:
            continue
        if kind == "stopping":
            return None
        if kind == "resumed":
            return float(moment)
    return None
