"""Which ranks keep the others waiting, by what the kernel and the agents know of their processes.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.finding import NOT_ENTERED, PROCESS, Finding, ranks_text, told

_STOPPED, _TRACED, _IN_KERNEL = "T", "t", "D"


class RankState(NamedTuple):
    """A rank's process: `code` is its exit code, None while it lives; `state`, its letter in `/proc/PID/stat`, "" where
    nobody knows."""

    code: int | None = None
    state: str = ""


def process_findings(states: Mapping[int, RankState]) -> list[Finding]:
    """What the states say of a run that stands still, by rank; findings that name ranks first; never none.

    A rank that has ended with 0 while others wait comes to no call any more; nor does one that somebody has stopped.
    Both are certain. A debugger's rank may be one that we look at, and one that waits in the kernel may go on.
    """
    alive = {rank for rank, each in states.items() if each.code is None}
    stopped = tuple(sorted(rank for rank in alive if states[rank].state == _STOPPED))
    ended = tuple(sorted(rank for rank, each in states.items() if each.code == 0))
    waiting = tuple(sorted(alive - set(stopped)))
    if stopped:
        return [_certain(stopped, waiting, "is stopped" if len(stopped) == 1 else "are stopped")]
    if ended and waiting:
        verb = "has" if len(ended) == 1 else "have"
        return [_certain(ended, waiting, f"{verb} ended with code 0")]
    told_of = ((_IN_KERNEL, "in the kernel (state D)"), (_TRACED, "held by a debugger"))
    seen = [(sorted(rank for rank in alive if states[rank].state == letter), what) for letter, what in told_of]
    words = "; ".join(f"{what}: {ranks_text(ranks)}" for ranks, what in seen if ranks)
    return [told(PROCESS, words or "no rank has ended, and none is stopped")]


def _certain(ranks: tuple[int, ...], waiting: tuple[int, ...], state: str) -> Finding:
    text = f"{ranks_text(ranks)} {state}"
    return Finding(PROCESS, NOT_ENTERED, ranks, "", None, waiting, None, text, state=state, certain=True)
