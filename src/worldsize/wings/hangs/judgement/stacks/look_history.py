"""The summaries of looks at a run that are kept, and the time for which a rank has done the same in all of them.

A rank that computes, or waits for its device, counts as working until it has done so in one place for too long.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.stacks.rank_activity import AT_DEVICE, COMPUTES, WAKES, has_gone_on
from worldsize.wings.hangs.judgement.stacks.rank_looks import RankLook

LOOKS = 3
"""The number of looks with the same result that is enough for a rank that computes in Python alone, or only wakes
up."""

LONG_FACTOR = 6
"""The multiple of the limit that a single call of native code, or the work of a device, may take."""


class RankSummary(NamedTuple):
    """The summary of a rank in one look. `own` and `exact` are digests of its place, in the user's functions and in all
    frames; "" if it was not in one place. `is_pure` is true if Python itself ran in the user's own code. `spent` is the
    CPU time so far, in seconds, of threads that use none while the rank waits for its device."""

    activity: str
    own: str
    exact: str
    is_pure: bool
    spent: float = 0.0


class LookSummary(NamedTuple):
    """A look at a run. `at` is in Unix seconds. `ranks` contains the summary of each rank."""

    at: float
    ranks: Mapping[int, RankSummary]


def summary_of(at: float, looks: Mapping[int, RankLook]) -> LookSummary:
    """Return the summary of the watchdog's look at all ranks at time `at`, which is kept for later looks."""
    ranks = {
        rank: RankSummary(each.activity, _digest(each.own), _digest(each.exact), each.is_pure, each.spent)
        for rank, each in looks.items()
    }
    return LookSummary(at, ranks)


def _digest(values: Sequence[tuple[str, str, int]]) -> str:
    return hashlib.sha256(repr(values).encode("utf-8", "replace")).hexdigest()[:16] if values else ""


def seconds_in_place(rank: int, looks: Sequence[LookSummary], limit: float) -> float | None:
    """Return the seconds for which a rank that computes, wakes up, or waits for its device has been in one place; None
    while that is not too long for a rank that works. `looks` has the oldest first, and the one that is judged last.
    `limit` is the seconds of silence after which a run is examined."""
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
    """Return the watchdog's latest consecutive looks, the oldest first, in which the rank had `activity` at one
    `place`, which is "own" or "exact". For a rank at its device, return only those since another thread last showed
    progress."""
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
