"""Which ranks did not come to a collective call, by what the others said when they had waited too long.

A rank that waits and times out says so; one that it talks to sees it go ("Connection closed by peer"), and waited, too.
NCCL's watchdog tells in which call, by number and kind, each rank was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.diagnose.evidence import Line, RunEvidence

_WATCHDOG = re.compile(
    r"\[Rank (\d{1,9})\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d{1,18}), OpType=(\w+)"
)


class Call(NamedTuple):
    """A collective call of NCCL: its number in its group, and its kind."""

    number: int
    kind: str


def watchdog_calls(lines: Mapping[int, Sequence[Line]]) -> dict[int, Call]:
    """By rank, the first call that its watchdog gave up. Only a rank's own words about itself count."""
    found: dict[int, Call] = {}
    for rank, said in lines.items():
        for line in said:
            match = _WATCHDOG.search(line.text)
            if match is not None and int(match[1]) == rank:
                found.setdefault(rank, Call(int(match[2]), match[3]))
    return found


def odd_ranks(calls: Mapping[int, Call]) -> list[int]:
    """The ranks that were in another call than most; none where all were in one, or no call has a majority."""
    counts = Counter(calls.values())
    most, number = counts.most_common(1)[0] if counts else (None, 0)
    return sorted(rank for rank, call in calls.items() if call != most) if number * 2 > len(calls) else []


def missing_ranks(evidence: RunEvidence, waiting: Sequence[int]) -> tuple[int, ...]:
    """The ranks that did not come where `waiting` waited: those that the watchdog saw elsewhere, else those that said
    nothing of it. None where these are not the fewer: the run may have ended before all had spoken."""
    odd = odd_ranks(watchdog_calls(evidence.lines))
    if odd:
        return tuple(odd)
    silent = tuple(end.rank for end in evidence.ends if end.rank not in set(waiting))
    return silent if len(silent) < len(waiting) or len(evidence.ends) == 2 else ()
