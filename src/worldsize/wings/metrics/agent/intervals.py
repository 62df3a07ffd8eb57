"""The rule for the time of the next sample: frequent at first, rare in a long run, and never noticeable to the ranks.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

SHORTEST, LONGEST = 2.0, 30.0
"""Seconds from one sample to the next, at a run's start and from its tenth minute on."""

_PART = 20
"""The divisor of the elapsed time that gives the wanted pause, so that a sample represents only a short part of the
run."""

SHARE = 0.004
"""The largest share of one core that the samples of all agents of a machine use on average."""

_FULL = 16 << 20
"""The number of bytes of samples after which the pauses double, each time."""


def next_pause(elapsed: float, cost: float, agents: int = 1, written: int = 0) -> float:
    """Return the seconds from one sample of a node's resource use to the next.

    elapsed  seconds since the ranks' start
    cost     seconds of CPU time that the last sample took
    agents   the number of the run's agents on the machine, which share the CPU time that sampling may use there
    written  bytes of samples so far; a node of 8 ranks and 8 GPUs writes about 14 MB in a week, and one of 256 ranks,
             whose pauses grow, 80 MB
    """
    wanted = min(LONGEST, max(SHORTEST, elapsed / _PART)) * 2.0 ** min(16, written // _FULL)
    return float(max(wanted, cost * agents / SHARE))
