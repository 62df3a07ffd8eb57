"""How often a scheduler may be asked: every query costs slurmctld the lock that scheduling needs too."""

from __future__ import annotations

_FIRST = 1.0
_SHARE = 0.05
_LONGEST = 15.0
_LONGEST_QUEUED = 30.0
_RUNS_PER_STEP = 50


def pause(age: float, runs: int = 1, queued: bool = False) -> float:
    """Seconds until Slurm may be asked again.

    age     seconds since something last changed (it was submitted, it started, its state was another)
    runs    how many jobs one query asks for: the more, the longer, since the answer is
    queued  all of them wait, and nobody watches output

    1 s at first, then a twentieth of `age`, up to 15 s, or 30 s while everything waits; one step more for every
    50 runs, up to four times as long.
    """
    longest = _LONGEST_QUEUED if queued else _LONGEST
    many = min(1 + max(runs, 1) // _RUNS_PER_STEP, 4)
    return min(max(_FIRST, age * _SHARE), longest) * many
