"""What is kept of a look at a run, and for how long a rank has done the same in all looks.

A rank that computes, or waits for its device, is at work, until it has done so in one place for too long.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.stacks.rank_activity import AT_DEVICE, COMPUTES, WAKES, has_gone_on
from worldsize.wings.hangs.judgement.stacks.rank_looks import RankLook

LOOKS = 3
"""So many looks that show the same are enough, of a rank that computes in Python alone, or only wakes up."""

LONG_FACTOR = 6
"""A single call of native code, or what a device does, may take so many times the limit."""


class RankSummary(NamedTuple):
    """What a rank did in a look. own, exact: digests of where it was, in the user's functions and altogether, "" where
    it was not in one place; is_pure: whether Python itself ran in the user's own code; spent: seconds of CPU, so far,
    of threads that use none while its device lets it wait."""

    activity: str
    own: str
    exact: str
    is_pure: bool
    spent: float = 0.0


class LookSummary(NamedTuple):
    """A look at a run. at: Unix seconds; ranks: by rank, what it did."""

    at: float
    ranks: Mapping[int, RankSummary]


def summary_of(at: float, looks: Mapping[int, RankLook]) -> LookSummary:
    """Return the summary of a look at time `at`."""
    ranks = {
        rank: RankSummary(each.activity, _digest(each.own), _digest(each.exact), each.is_pure, each.spent)
        for rank, each in looks.items()
    }
    return LookSummary(at, ranks)


def _digest(values: Sequence[tuple[str, str, int]]) -> str:
    return hashlib.sha256(repr(values).encode("utf-8", "replace")).hexdigest()[:16] if values else ""


def seconds_in_place(rank: int, looks: Sequence[LookSummary], limit: float) -> float | None:
    """For how many seconds a rank that computes, wakes up, or waits for its device has been in one place; None while
    that is not too long for a rank that works. `looks`: the oldest first, the one that is judged last; `limit`: seconds
    of silence after which a run is looked at."""
    waking = _latest(rank, looks, WAKES, "own")
    if len(waking) >= LOOKS:
        return waking[-1].at - waking[0].at
    computing = _latest(rank, looks, COMPUTES, "own")
    if len(computing) >= LOOKS and all(each.ranks[rank].is_pure for each in computing[-LOOKS:]):
        return computing[-1].at - computing[0].at
    in_one_call = _latest(rank, looks, COMPUTES, "exact") or _latest(rank, looks, AT_DEVICE, "exact")
    seconds = in_one_call[-1].at - in_one_call[0].at if in_one_call else 0.0
    return seconds if len(in_one_call) >= LOOKS and seconds >= LONG_FACTOR * limit else None


def _latest(rank: int, looks: Sequence[LookSummary], activity: str, place: str) -> list[LookSummary]:
    """Return the latest looks, the oldest first, in which the rank did this in one place, which is `own` or `exact`; of
    one at its device, those since which no other thread has shown that it goes on."""
    found: list[LookSummary] = []
    known = ""
    for look in reversed(looks):
        each = look.ranks.get(rank)
        if each is None or each.activity != activity:
            break
        here = getattr(each, place)
        if not here or (known and here != known):
            break
        if activity == AT_DEVICE and found:
            last = found[-1]
            if has_gone_on(last.ranks[rank].spent - each.spent, last.at - look.at):
                break
        known = here
        found.insert(0, look)
    return found
