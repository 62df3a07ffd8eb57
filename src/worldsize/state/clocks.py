"""The offset between the clocks of two machines, measured with one request and its reply.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from worldsize.common.json_values import is_number
from worldsize.common.named_tuple import Any, NamedTuple


class ClockOffset(NamedTuple):
    """The seconds that a node's clock is ahead of the head's, and the largest possible error of that."""

    seconds: float
    uncertainty: float


def clock_offset(asked: float, read: float, answered: float, heard: float) -> ClockOffset:
    """Return how far the local clock is ahead of the remote one. The request was sent at `asked` and the reply received
    at `heard`, both on the local clock. The request was read at `read` and the reply sent at `answered`, both on the
    remote clock.

    The true offset is within the uncertainty for any transmission times, unless a clock was set meanwhile.
    """
    return ClockOffset(((asked - read) + (heard - answered)) / 2, abs((heard - asked) - (answered - read)) / 2)


def offset_of_events(events: Iterable[Mapping[str, Any]]) -> ClockOffset | None:
    """Return the offset of a node's clock to the head's that the node has recorded among its `events`; None if it has
    measured none, or the record is not valid."""
    for event in events:
        seconds, unsure = event.get("seconds"), event.get("uncertainty")
        if event.get("event") == "clock" and is_number(seconds) and is_number(unsure):
            return ClockOffset(float(seconds or 0), float(unsure or 0))
    return None
