"""The collective calls that timed out according to NCCL's watchdog, found by its lines in the ranks' logs
(`ProcessGroupNCCL.cpp`).

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from worldsize.common.named_tuple import NamedTuple

_WATCHDOG = re.compile(
    r"\[Rank (\d{1,9})\] Watchdog caught collective operation timeout: WorkNCCL\(SeqNum=(\d{1,18}), OpType=(\w{1,60})"
)


class Call(NamedTuple):
    """A collective call of NCCL: its sequence number in its group, and its kind."""

    number: int
    kind: str


def watchdog_calls(lines: Mapping[int, Iterable[str]]) -> dict[int, Call]:
    """Return the first collective call of each rank that timed out according to NCCL's watchdog, as a mapping of rank
    to Call, from `lines`, the log lines of each rank. Only the lines of a rank about itself count."""
    found: dict[int, Call] = {}
    for rank, said in lines.items():
        for line in said:
            match = _WATCHDOG.search(line)
            if match is not None and int(match[1]) == rank:
                found.setdefault(rank, Call(int(match[2]), match[3]))
    return found


def odd_ranks(calls: Mapping[int, Call]) -> list[int]:
    """Return the ranks that were in another collective call than the majority of ranks, from `calls`, the call of each
    rank; an empty list if all were in the same call, or no call has a majority."""
    counts = Counter(calls.values())
    most, number = counts.most_common(1)[0] if counts else (None, 0)
    return sorted(rank for rank, call in calls.items() if call != most) if number * 2 > len(calls) else []
