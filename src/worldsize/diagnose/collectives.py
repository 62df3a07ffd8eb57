"""Ranks that did not enter a collective call, found from the messages of the ranks that waited too long.

A rank that waits and times out prints that. A rank that communicates with it sees it end ("Connection closed by peer"),
and waited too. NCCL's watchdog reports in which call, by number and kind, each rank was.
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.diagnose.evidence import RunEvidence
from worldsize.state.collective_calls import Call, odd_ranks, watchdog_calls


def calls_given_up(evidence: RunEvidence) -> dict[int, Call]:
    """Return a mapping of rank to the first collective call of that rank that NCCL's watchdog gave up after a timeout,
    as the rank's log states."""
    return watchdog_calls({rank: [line.text for line in lines] for rank, lines in evidence.lines.items()})


def missing_ranks(evidence: RunEvidence, waiting: Sequence[int]) -> tuple[int, ...]:
    """Return the ranks that did not enter the collective call in which the ranks `waiting` waited: those that NCCL's
    watchdog saw in another call, else those that are not in `waiting`. Empty if the latter are not fewer than
    `waiting`, unless the run has two ranks, since the run may have ended before all ranks reported."""
    odd = odd_ranks(calls_given_up(evidence))
    if odd:
        return tuple(odd)
    silent = tuple(end.rank for end in evidence.ends if end.rank not in set(waiting))
    return silent if len(silent) < len(waiting) or len(evidence.ends) == 2 else ()
