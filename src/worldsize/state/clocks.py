"""How far the clocks of two machines are apart, by one question and its answer.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from worldsize.common.json_values import is_number
from worldsize.common.named_tuple import Any, NamedTuple


class ClockOffset(NamedTuple):
    """How many seconds a node's clock is ahead of the head's, and by how many at most that may be wrong."""

    seconds: float
    uncertainty: float


def clock_offset(asked: float, read: float, answered: float, heard: float) -> ClockOffset:
    """Return the offset of the clock that `asked` and `heard` are of, ahead of the other's, that `read` and `answered`
    are of: the question was sent at `asked`, read at `read`; the answer was sent at `answered`, and heard at `heard`.

    However long either took on its way, the truth is within the uncertainty, as long as no clock was set meanwhile.
    """
    return ClockOffset(((asked - read) + (heard - answered)) / 2, abs((heard - asked) - (answered - read)) / 2)


def offset_of_events(events: Iterable[Mapping[str, Any]]) -> ClockOffset | None:
    """Return the offset that a node has written among its events; None where it measured none, or wrote something
    else."""
    for event in events:
        seconds, unsure = event.get("seconds"), event.get("uncertainty")
        if event.get("event") == "clock" and is_number(seconds) and is_number(unsure):
            return ClockOffset(float(seconds or 0), float(unsure or 0))
    return None
