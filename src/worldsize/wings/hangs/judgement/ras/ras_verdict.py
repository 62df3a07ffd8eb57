"""The ranks that keep the others waiting, according to an answer of NCCL's RAS.

Counts are launches. Equal counts are no sign of health (NVIDIA/nccl#1730), and a rank that is behind all others has not
entered the call that they wait in. A rank that is behind in one communicator and waits in another is not itself the
cause. The port may lead to another job's processes: an answer that names a process outside of this run is not used.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.finding import (
    NOT_ENTERED,
    OTHER_CALL,
    RAS,
    Finding,
    against_text,
    is_minority,
    ranks_text,
    told,
)
from worldsize.wings.hangs.judgement.ras.ras_answer import Answer, Communicator, read_answer


class RankProcess(NamedTuple):
    """A process of this run: its rank, its number, and the names that its node may have in an answer, addresses first.
    `hosts` is empty if the names are unknown, so that the number alone decides."""

    rank: int
    pid: int
    hosts: tuple[str, ...] = ()


class _Difference(NamedTuple):
    """A communicator whose ranks have launched different numbers of a kind of operation. All ranks are those of the
    world. `others` is the number of ranks that are ahead. `ahead` has those of them that the answer names, and may be
    empty. `behind` may be empty as well, if the answer only counts these ranks."""

    kind: str
    lowest: int
    behind: tuple[int, ...]
    ahead: tuple[int, ...]
    others: int
    unseen: int


def ras_findings(text: str, processes: Sequence[RankProcess]) -> list[Finding]:
    """Return the findings from the answer `text` of NCCL's RAS about the run's `processes`. Findings that name ranks
    come first; there is always at least one. RAS is one witness, and a weak one."""
    answer = read_answer(text)
    if answer.fault:
        return [told(RAS, f"the answer {answer.fault}")]
    ranks = _ranks_of(answer.processes, processes)
    foreign = sorted(process for process in answer.processes if process not in ranks)
    if foreign:
        host, pid = foreign[0]
        words = f"process {pid} on {host}, which does not belong to this run"
        return [told(RAS, f"the answer names {words}: it may be another job's, and is not used")]
    if not answer.processes:
        return [told(RAS, "the answer names no process, so its job is unknown")]
    lost = _lost_finding(answer, ranks, processes)
    found = _findings([each for known in answer.communicators for each in _differences(known, ranks)])
    named = [each for each in found if each.kind is not None]
    if lost is not None:
        return [lost]
    return named or found or [told(RAS, "all ranks have launched equally many operations")]


def _ranks_of(named: Iterable[tuple[str, int]], processes: Iterable[RankProcess]) -> dict[tuple[str, int], int]:
    """Return a mapping of the processes (host, pid) in RAS's answer that belong to this run to their ranks in the
    world."""
    by_pid: dict[int, list[RankProcess]] = {}
    for process in processes:
        by_pid.setdefault(process.pid, []).append(process)
    found = {}
    for host, pid in named:
        same = by_pid.get(pid, [])
        exact = [each for each in same if host in each.hosts]
        if len(exact) == 1 or (len(same) == 1 and not same[0].hosts):
            found[host, pid] = (exact or same)[0].rank
    return found


def _lost_finding(
    answer: Answer, ranks: Mapping[tuple[str, int], int], processes: Sequence[RankProcess]
) -> Finding | None:
    """Return the finding on ranks that do not respond to RAS, since they are stopped or gone, according to its answer.
    None if there are no such ranks."""
    lost = {ranks[process]: "is considered dead" for process in answer.dead}
    for communicator in answer.communicators:
        for each in communicator.ranks:
            if each.lost and each.pid >= 0:
                lost.setdefault(ranks[each.host, each.pid], "does not answer")
    if not lost:
        return None
    names, others = tuple(sorted(lost)), sorted({each.rank for each in processes} - set(lost))
    text = "; ".join(f"rank {rank} {lost[rank]}" for rank in names[:8])
    if not is_minority(names, others):
        return told(RAS, f"{text}: {against_text(names, others)}")
    return Finding(RAS, NOT_ENTERED, names, "", None, tuple(others), None, text)


def _differences(communicator: Communicator, ranks: Mapping[tuple[str, int], int]) -> list[_Difference]:
    world = {each.rank: ranks.get((each.host, each.pid)) for each in communicator.ranks}
    kinds = {kind for each in communicator.ranks for kind in each.counts} | set(communicator.totals)
    lost = sum(1 for each in communicator.ranks if each.lost)
    found = []
    for kind in sorted(kinds):
        known = {each.rank: each.counts[kind] for each in communicator.ranks if kind in each.counts}
        totals = communicator.totals.get(kind, ())
        lowest = min([*known.values(), *(count for count, _ in totals)])
        behind = sorted(world[rank] or 0 for rank, count in known.items() if count == lowest)
        ahead = sorted(world[rank] or 0 for rank, count in known.items() if count > lowest)
        others = sum(number for count, number in totals if count > lowest) or len(ahead)
        least = sum(number for count, number in totals if count == lowest)
        if others:
            named = tuple(behind) if len(behind) >= least else ()
            found.append(_Difference(kind, lowest, named, tuple(ahead), others, lost))
    return found


def _findings(differences: Sequence[_Difference]) -> list[Finding]:
    """Return the findings from the communicators whose ranks have launched different numbers of operations. A rank that
    is behind in one kind of operation and ahead in another makes other calls than the rest. A rank that is ahead
    somewhere waits there."""
    ahead = {rank for each in differences for rank in each.ahead}
    if any(each.others > len(each.ahead) for each in differences) and len({each.behind for each in differences}) > 1:
        words = (f"{ranks_text(each.behind)} in {each.kind}" for each in differences if each.behind)
        return [told(RAS, f"behind are {', '.join(words)}; the answer does not name the waiting ranks")]
    found = []
    for each in differences:
        if not each.behind:
            found.append(told(RAS, f"some ranks have launched {each.kind} {each.lowest} times, others more"))
            continue
        odd = tuple(rank for rank in each.behind if rank not in ahead)
        others = _counted(each, odd)
        text = f"{ranks_text(each.behind)} launched {each.kind} {each.lowest} times, {each.others} others more"
        if not odd and _are_crossed(each, differences):
            text += ", and the same ranks more of another operation"
            crossed = is_minority(each.behind, range(each.others), each.unseen) and each.others > 1
            kind = OTHER_CALL if crossed else None
            found.append(Finding(RAS, kind, each.behind if crossed else (), each.kind, None, each.ahead, None, text))
        elif not odd:
            found.append(told(RAS, f"{text}; {ranks_text(each.behind)} wait elsewhere"))
        elif not is_minority(odd, others, each.unseen):
            found.append(told(RAS, f"{text}: {against_text(odd, others, each.unseen)}"))
        else:
            found.append(Finding(RAS, NOT_ENTERED, odd, each.kind, None, each.ahead, None, text))
    return found


def _counted(each: _Difference, odd: Sequence[int]) -> Sequence[int]:
    """Return a sequence whose length is the number of a communicator's ranks that are not in `odd`. `ahead` does not
    contain all of them if RAS's text report only counts them."""
    return range(each.others + len(each.behind) - len(odd))


def _are_crossed(difference: _Difference, all_of_them: Iterable[_Difference]) -> bool:
    """Return whether exactly the ranks that are behind in `difference` are the ones ahead in another kind of
    operation."""
    return any(set(each.ahead) == set(difference.behind) and each.kind != difference.kind for each in all_of_them)
