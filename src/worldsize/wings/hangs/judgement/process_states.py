"""The ranks that keep the others waiting, according to the kernel's and the agents' knowledge of their processes.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.finding import NOT_ENTERED, PROCESS, Finding, ranks_text, told

_STOPPED, _TRACED, _IN_KERNEL = "T", "t", "D"


class RankState(NamedTuple):
    """The state of a rank's process. `code` is its exit code, None while it is alive. `state` is its letter in
    `/proc/PID/stat`; "" if unknown."""

    code: int | None = None
    state: str = ""


def process_findings(states: Mapping[int, RankState]) -> list[Finding]:
    """Return the findings on a run that makes no progress from the states of its ranks' processes, by rank. Findings
    that name ranks come first; there is always at least one.

    A rank that has ended with 0 while others wait, or that was stopped, enters no further call. Both are certain. A
    debugger's rank may be under examination by a user, and a rank that waits in the kernel may continue.
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
