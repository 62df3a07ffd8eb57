"""How far the clocks of two machines are apart, by one question and its answer.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple


class ClockOffset(NamedTuple):
    """How many seconds a node's clock is ahead of the head's, and by how many at most that may be wrong."""

    seconds: float
    uncertainty: float


def clock_offset(asked: float, read: float, answered: float, heard: float) -> ClockOffset:
    """The offset of the clock that `asked` and `heard` are of, ahead of the other's, that `read` and `answered` are of:
    the question was sent at `asked`, read at `read`; the answer was sent at `answered`, and heard at `heard`.

    However long either took on its way, the truth is within the uncertainty, as long as no clock was set meanwhile.
    """
    return ClockOffset(((asked - read) + (heard - answered)) / 2, abs((heard - asked) - (answered - read)) / 2)
