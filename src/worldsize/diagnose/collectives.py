"""Which ranks did not come to a collective call, by what the others said when they had waited too long.

A rank that waits and times out says so; one that it talks to sees it go ("Connection closed by peer"), and waited, too.
NCCL's watchdog tells in which call, by number and kind, each rank was.
"""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.diagnose.evidence import RunEvidence
from worldsize.state.collective_calls import Call, odd_ranks, watchdog_calls


def calls_given_up(evidence: RunEvidence) -> dict[int, Call]:
    """By rank, the first call that NCCL's watchdog gave up, as its log says."""
    return watchdog_calls({rank: [line.text for line in lines] for rank, lines in evidence.lines.items()})


def missing_ranks(evidence: RunEvidence, waiting: Sequence[int]) -> tuple[int, ...]:
    """Return the ranks that did not come where `waiting` waited: those that the watchdog saw elsewhere, else those that
    said nothing of it. None where these are not the fewer: the run may have ended before all had spoken."""
    odd = odd_ranks(calls_given_up(evidence))
    if odd:
        return tuple(odd)
    silent = tuple(end.rank for end in evidence.ends if end.rank not in set(waiting))
    return silent if len(silent) < len(waiting) or len(evidence.ends) == 2 else ()
