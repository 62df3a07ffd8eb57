"""When the next sample is due: often at first, seldom in a long run, and never so often that sampling is felt.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

SHORTEST, LONGEST = 2.0, 30.0
"""Seconds from one sample to the next, at a run's start and from its tenth minute on."""

_PART = 20
"""A pause is at most this part of the time that has passed: a sample is never far from what it stands for."""

SHARE = 0.004
"""Of a core, the most that the samples of all agents of a machine take, each on average."""

_FULL = 16 << 20
"""Bytes of samples, after each of which the pauses double."""


def next_pause(elapsed: float, cost: float, agents: int = 1, written: int = 0) -> float:
    """Seconds from one sample to the next.

    elapsed  since the ranks' start
    cost     seconds of CPU that the last sample took
    agents   how many of the run's agents share the machine, and what sampling may cost there
    written  bytes of samples so far. A node of 8 ranks and 8 GPUs writes about 14 MB in a week, and one of 256 ranks,
             whose pauses grow, 80 MB.
    """
    wanted = min(LONGEST, max(SHORTEST, elapsed / _PART)) * 2.0 ** min(16, written // _FULL)
    return float(max(wanted, cost * agents / SHARE))
