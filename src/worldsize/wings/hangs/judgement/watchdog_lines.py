"""Findings on which ranks block the others, from the lines that NCCL's watchdog wrote into the ranks' logs on a
timeout.

The watchdog gives up in the ranks that wait, after its timeout (10 minutes, unless the script sets another one). How
far each rank was is in another line, whose wording differs with PyTorch's version (`ProcessGroupNCCL.cpp`):

    [PG ID 0 PG GUID 0(default_pg) Rank 1] Timeout at NCCL work: 7, last enqueued NCCL work: 7, last completed …: 6.
    [PG 0 Rank 1] Exception (either an error or timeout) detected by watchdog at work: 7, last enqueued NCCL work: 7, …
    … failure detected by watchdog at work sequence id: 7 PG status: last enqueued work: 7, last completed work: 6
    … Received a dump signal due to a collective timeout from rank 0 …. Last enqueued NCCL work: 6, last completed …: 6.

The last of these lines also comes from ranks that wait for nothing: they are ordered to write their Flight Recorder's
dump.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from worldsize.common.named_tuple import NamedTuple
from worldsize.state.collective_calls import Call, odd_ranks, watchdog_calls
from worldsize.wings.hangs.judgement.finding import (
    NOT_ENTERED,
    OTHER_CALL,
    WATCHDOG,
    Finding,
    against_text,
    call_text,
    is_minority,
    ranks_text,
    told,
)

_PROGRESS = re.compile(
    r"[Ll]ast enqueued (?:NCCL )?work: (-?\d{1,18}), "
    r"(?:last started work: -?\d{1,18}(?: \(\w{0,60}\))?, )?last completed(?: (?:NCCL )?work)?: (-?\d{1,18})"
)
_GROUP = re.compile(r"\[PG (?:ID )?(\w{1,60})(?: PG GUID ([\w:.-]{1,60}))?(?:\s?\(([^)\]]{0,60})\))? Rank \d{1,9}\]")

_WHOLE_WORLD = ("", "0", "default_pg")

_NAMES = {
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "_ALLGATHER_BASE": "all_gather",
    "BROADCAST": "broadcast",
    "REDUCE": "reduce",
    "REDUCE_SCATTER": "reduce_scatter",
    "_REDUCE_SCATTER_BASE": "reduce_scatter",
    "ALLTOALL": "all_to_all",
    "ALLTOALL_BASE": "all_to_all",
    "BARRIER": "barrier",
}
"""The names of collectives in scripts, by the `OpType` of a line."""


class Progress(NamedTuple):
    """The progress of a rank in an NCCL process group: the number of the last collective call that the rank has made
    (`enqueued`), and of the last call that has ended (`completed`). 0 if there is none."""

    enqueued: int
    completed: int


def watchdog_findings(lines: Mapping[int, Iterable[str]], world_size: int) -> list[Finding]:
    """Return the findings on which ranks block the others, from the lines of NCCL's watchdog in the ranks' logs; a list
    of at least one Finding. `lines` maps each rank to the lines of its log, of which the last ones are enough."""
    said = {rank: list(each) for rank, each in lines.items() if 0 <= rank < world_size}
    calls = watchdog_calls(said)
    progress = _progress(said)
    speaking = set(calls) | {rank for each in progress.values() for rank in each}
    if not speaking:
        return [told(WATCHDOG, "it has not reported a timeout")]
    found = [_behind(group, each, calls, world_size) for group, each in sorted(progress.items())]
    found.append(_elsewhere(calls, world_size))
    named = [each for each in found if each is not None and each.kind is not None]
    if named:
        return named
    silent = _silent(calls, speaking, world_size)
    return [each for each in found if each is not None] or [silent]


def _progress(lines: Mapping[int, Iterable[str]]) -> dict[str, dict[int, Progress]]:
    """Return the last progress (enqueued and completed calls) that each rank's NCCL watchdog has written to the rank's
    log, by process group and rank. The group "" is that of all ranks. The number in `[… Rank N]` is a rank within the
    group, so the rank is taken from the log that has the line."""
    found: dict[str, dict[int, Progress]] = {}
    for rank, said in lines.items():
        for line in said:
            match = _PROGRESS.search(line)
            if match is not None:
                prefix = _GROUP.search(line)
                name = (prefix[3] or prefix[2] or prefix[1]) if prefix else ""
                group = "" if name in _WHOLE_WORLD else f"group {name}"
                found.setdefault(group, {})[rank] = Progress(max(0, int(match[1])), max(0, int(match[2])))
    return found


def _behind(group: str, progress: Mapping[int, Progress], calls: Mapping[int, Call], world_size: int) -> Finding | None:
    """Return the Finding about the ranks of one process group that have made the fewest calls and whose last call has
    ended, while others wait in a later call; None if there are none. It names no rank if these ranks are not a clear
    minority."""
    low = min(each.enqueued for each in progress.values())
    absent = tuple(sorted(rank for rank, each in progress.items() if each.enqueued == low))
    ahead = tuple(sorted(rank for rank, each in progress.items() if each.enqueued > low))
    if not ahead or any(progress[rank].completed < low for rank in absent):
        return None
    kinds = Counter(call.kind for rank, call in calls.items() if rank in ahead and call.number == low + 1)
    kind = kinds.most_common(1)[0][0] if kinds else ""
    unseen = 0 if group else world_size - len(progress)
    text = f"{ranks_text(absent)} did not enter {call_text(_call(kind), low + 1, group)}, {ranks_text(ahead)} did"
    if not is_minority(absent, ahead, unseen):
        return told(WATCHDOG, f"{text}: {against_text(absent, ahead, unseen)}")
    return Finding(WATCHDOG, NOT_ENTERED, absent, _call(kind), low + 1, ahead, None, text, group=group)


def _elsewhere(calls: Mapping[int, Call], world_size: int) -> Finding | None:
    """Return the Finding that names the ranks whose NCCL watchdog timed out in another collective call than most; None
    if all timed out in the same one. It names no rank if there is no clear minority."""
    odd = tuple(odd_ranks(calls))
    if not odd:
        if len(set(calls.values())) < 2:
            return None
        counts = " against ".join(str(number) for _, number in Counter(calls.values()).most_common())
        return told(WATCHDOG, f"the ranks timed out in different calls: {counts}")
    others = tuple(sorted(set(calls) - set(odd)))
    most, mine = calls[others[0]], calls[odd[0]]
    entered = call_text(_call(mine.kind), mine.number)
    text = f"{ranks_text(odd)} waited in {entered}, {ranks_text(others)} in {call_text(_call(most.kind), most.number)}"
    unseen = world_size - len(calls)
    if not is_minority(odd, others, unseen):
        return told(WATCHDOG, f"{text}: {against_text(odd, others, unseen)}")
    return Finding(WATCHDOG, OTHER_CALL, odd, _call(most.kind), most.number, others, None, text, entered=entered)


def _silent(calls: Mapping[int, Call], speaking: Iterable[int], world_size: int) -> Finding:
    """Return the Finding about the ranks whose NCCL watchdogs reported no timeout, because these ranks wait for
    nothing. It names no rank if all have reported, or if the silent ranks are not a clear minority."""
    waiting = tuple(sorted(speaking))
    silent = tuple(sorted(set(range(world_size)) - set(waiting)))
    call = next(iter(calls.values()), None) if len(set(calls.values())) == 1 else None
    name, number = (_call(call.kind), call.number) if call else ("", None)
    if not silent:
        return told(WATCHDOG, f"all ranks timed out in {call_text(name, number)}")
    text = f"{ranks_text(waiting)} timed out in {call_text(name, number)}, {ranks_text(silent)} did not report"
    if not is_minority(silent, waiting):
        return told(WATCHDOG, f"{text}: {against_text(silent, waiting)}")
    return Finding(WATCHDOG, NOT_ENTERED, silent, name, number, waiting, None, text)


def _call(kind: str) -> str:
    return _NAMES.get(kind, kind.lower())
