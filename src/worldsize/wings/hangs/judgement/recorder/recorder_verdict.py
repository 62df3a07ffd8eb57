"""The ranks that keep the others waiting, according to their dumps of the Flight Recorder.

The majority is right, not the first rank. In each process group, calls are aligned by their numbers, and the first call
that has not ended everywhere decides. A rank that has not come to a call because it waits in another group, or for
another rank, is not itself the cause: only ranks that wait for no other rank are named. A missing dump names no rank.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.finding import (
    KINDS,
    NOT_ENTERED,
    NOT_LEFT,
    OTHER_CALL,
    RECORDER,
    Finding,
    against_text,
    call_text,
    is_minority,
    ranks_text,
    told,
)
from worldsize.wings.hangs.judgement.recorder.flight_recorder import Dump, Entry
from worldsize.wings.hangs.judgement.recorder.recorded_groups import (
    Ends,
    Group,
    elements,
    groups_of,
    own_frame,
    signature,
)

_ROOTED = ("broadcast", "reduce", "gather", "scatter")
"""Calls that some ranks may leave long before the others."""


class _Problem(NamedTuple):
    """The first call of a group that has not ended everywhere. `odd` are the ranks that may be the cause, `stuck` those
    that wait in the call, `left` those that have left it."""

    kind: str | None
    group: Group
    seq: int
    odd: tuple[int, ...]
    stuck: tuple[int, ...]
    left: tuple[int, ...] = ()
    entries: Mapping[int, tuple[Entry, ...]] = {}

    @property
    def call(self) -> str:
        """The call that most of the ranks that are not odd have made; "" if the records no longer contain it."""
        said = Counter(each[0].op for rank, each in self.entries.items() if each and rank not in self.odd)
        return said.most_common(1)[0][0] if said else ""

    @property
    def title(self) -> str:
        return call_text(self.call, self.seq, self.group.name)

    @property
    def since(self) -> float | None:
        times = [each[0].created for rank, each in self.entries.items() if each and rank in self.stuck]
        return max(times, default=0.0) or None


def recorder_findings(dumps: Sequence[Dump], world_size: int) -> list[Finding]:
    """Return the findings on a hang from the ranks' Flight Recorder dumps. Findings that name ranks come first; there
    is always at least one.

    The dumps must be taken after everything has come to a halt: if the newest call is newer than a dump, no rank is
    named. Ranks without a dump may be left out of `dumps`.
    """
    readable = [dump for dump in dumps if not dump.fault and 0 <= dump.rank < world_size]
    remark = _remark(dumps, {dump.rank for dump in readable}, world_size)
    if not readable:
        return [told(RECORDER, "no dump can be read" + remark)]
    if _have_moved(readable):
        return [told(RECORDER, "ranks continued while the dumps were written" + remark)]
    ends = Ends(readable)
    problems = [found for found in (_problem(group, ends) for group in groups_of(readable, world_size)) if found]
    if not problems:
        return [told(RECORDER, "no call that ranks wait in is recorded" + remark)]
    blocked = _blocked(problems, readable, ends)
    findings = [_finding(problem, blocked[index], remark) for index, problem in enumerate(problems)]
    named = [each for each in findings if each.kind is not None] or _other_order(
        problems, {dump.rank for dump in readable}
    )
    named.sort(key=lambda each: (KINDS.index(each.kind or NOT_LEFT), each.since or 0.0))
    return _without_repetition(named) or findings


def _remark(dumps: Iterable[Dump], readable: set[int], world_size: int) -> str:
    """Return a list of the Flight Recorder dumps that are missing or cannot be read, as the end of a sentence. "" if
    there are none."""
    missing = sorted(set(range(world_size)) - readable)
    faults = {dump.rank: dump.fault for dump in dumps if dump.fault and dump.fault != "is missing"}
    absent = [rank for rank in missing if rank not in faults]
    parts = [f"the dump of {ranks_text(absent)} is missing"] if absent else []
    parts += [f"the dump of rank {rank} {fault}" for rank, fault in sorted(faults.items())[:3]]
    return "".join(f"; {part}" for part in parts)


def _have_moved(dumps: Iterable[Dump]) -> bool:
    taken = [dump.taken for dump in dumps if dump.taken is not None]
    newest = max((entry.created for dump in dumps for entry in dump.entries), default=0.0)
    return bool(taken) and newest > min(taken)


def _problem(group: Group, ends: Ends) -> _Problem | None:
    low = min(map(group.last, group.calls))
    for seq in group.shared():
        entries = {rank: calls[seq] for rank, calls in group.calls.items()}
        ended = {rank: ends.have(each) for rank, each in entries.items()}
        unknown = None in ended.values()
        if all(ended.values()) or (unknown and seq < low):
            continue
        found = _in_shared_call(group, seq, entries, ended)
        if found is not None and not (unknown and found.kind != OTHER_CALL and _are_ahead(group, low)):
            return found
    return _before_entry(group, low, ends) if _are_ahead(group, low) else None


def _are_ahead(group: Group, low: int) -> bool:
    return any(group.last(rank) > low for rank in group.calls)


def _in_shared_call(
    group: Group, seq: int, entries: Mapping[int, tuple[Entry, ...]], ended: Mapping[int, bool | None]
) -> _Problem | None:
    """Return the problem of the group's collective call `seq`, which all ranks have entered and not all have left: some
    ranks entered another call, some did not leave it, or no rank can be named."""
    stuck = tuple(sorted(rank for rank in ended if not ended[rank]))
    left = tuple(sorted(rank for rank in ended if ended[rank]))
    kinds = {rank: signature(each) for rank, each in entries.items()}
    most, _ = Counter(kinds.values()).most_common(1)[0]
    odd = tuple(sorted(rank for rank, kind in kinds.items() if kind != most))
    if odd:
        return _Problem(OTHER_CALL, group, seq, odd, stuck, left, entries)
    is_rooted = any(entry.op.lstrip("_").startswith(_ROOTED) for entry in entries[stuck[0]])
    if left and not is_rooted:
        return _Problem(NOT_LEFT, group, seq, stuck, stuck, left, entries)
    return _Problem(None, group, seq, (), stuck, left, entries)


def _before_entry(group: Group, low: int, ends: Ends) -> _Problem:
    """Return the problem of the first collective call of the group that some ranks have entered and others have not;
    `low` is the number of the call before it."""
    absent = tuple(sorted(rank for rank in group.calls if group.last(rank) == low))
    ahead = sorted(set(group.calls) - set(absent))
    stuck = tuple(rank for rank in ahead if _waits(group.calls[rank], low, ends))
    free = tuple(rank for rank in ahead if rank not in stuck)
    entries = {rank: group.calls[rank].get(low + 1, ()) for rank in ahead}
    return _Problem(NOT_ENTERED, group, low + 1, absent, stuck, free, entries)


def _waits(calls: Mapping[int, tuple[Entry, ...]], low: int, ends: Ends) -> bool:
    return any(ends.have(each) is not True for seq, each in calls.items() if seq > low)


def _blocked(problems: Sequence[_Problem], dumps: Iterable[Dump], ends: Ends) -> list[set[int]]:
    """Return, for each problem, the set of its odd ranks that wait elsewhere: in another process group's call, or in a
    point-to-point call for another rank."""
    waits = {dump.rank for dump in dumps for each in dump.entries if each.is_p2p and ends.have((each,)) is not True}
    calls = Counter(rank for problem in problems for rank in problem.stuck)
    return [
        {rank for rank in problem.odd if rank in waits or calls[rank] > (rank in problem.stuck)} for problem in problems
    ]


def _finding(problem: _Problem, blocked: set[int], remark: str) -> Finding:
    group, title = problem.group, problem.title
    unseen = len(group.unseen)
    if problem.kind is None:
        who = "all have" if len(group.calls) > 1 else f"{ranks_text(group.calls)} alone has"
        return told(RECORDER, f"{who} entered {title}, and {ranks_text(problem.stuck)} did not leave it{remark}")
    if problem.kind == OTHER_CALL:
        odd, others = problem.odd, tuple(sorted(set(problem.entries) - set(problem.odd)))
        entered = _difference(problem.entries[odd[0]], problem.entries[others[0]])
        text = f"{ranks_text(odd)} entered {entered}, {ranks_text(others)} {title}"
    elif problem.kind == NOT_LEFT:
        odd, others, entered = problem.odd, problem.left, ""
        text = f"{ranks_text(odd)} did not leave {title}, {ranks_text(others)} did"
    else:
        odd, others, entered = tuple(rank for rank in problem.odd if rank not in blocked), problem.stuck, ""
        text = f"{ranks_text(odd or problem.odd)} did not enter {title}, {ranks_text(others)} did"
        if problem.left:
            return told(RECORDER, f"{text} and {ranks_text(problem.left)} continued{remark}")
        if not odd:
            return told(RECORDER, f"{text}; {ranks_text(problem.odd)} wait elsewhere{remark}")
    if problem.kind != NOT_ENTERED and blocked:
        return told(RECORDER, f"{text}; {ranks_text(blocked)} wait elsewhere as well{remark}")
    if not is_minority(odd, others, unseen) or (problem.kind == OTHER_CALL and len(problem.entries) == 2):
        unclear = told(RECORDER, f"{text}: {against_text(odd, others, unseen)}{remark}")
        alone = problem.kind == NOT_ENTERED and is_minority(others, odd, unseen)
        return unclear._replace(ranks=others, entered=problem.call) if alone else unclear
    waiting = problem.left if problem.kind == NOT_LEFT else tuple(rank for rank in problem.stuck if rank not in odd)
    return Finding(
        RECORDER,
        problem.kind,
        odd,
        problem.call,
        problem.seq,
        waiting,
        None if problem.kind == NOT_ENTERED else _place(problem.entries[rank] for rank in odd),
        text + remark,
        problem.since,
        group.name,
        entered,
    )


def _other_order(problems: Sequence[_Problem], seen: set[int]) -> list[Finding]:
    """Return a list with the finding on ranks that make the calls of two process groups in another order than the rest:
    few ranks wait in one group, and all other ranks that were `seen` in the other. Empty if there are no such groups.
    """
    for one, two in itertools.permutations(problems, 2):
        is_crossed = one.kind == two.kind == NOT_ENTERED and one.odd == two.stuck and two.odd == one.stuck
        members = set(one.group.calls)
        is_whole = members == set(two.group.calls) == {*one.odd, *one.stuck} and members == seen
        if is_crossed and is_whole and len(members) > 2 and is_minority(one.odd, one.stuck):
            text = f"{ranks_text(one.odd)} entered {two.title}, {ranks_text(one.stuck)} {one.title}"
            finding = Finding(RECORDER, OTHER_CALL, one.odd, one.call, one.seq, one.stuck, None, text)
            return [finding._replace(since=one.since, group=one.group.name, entered=two.title)]
    return []


def _difference(odd: Sequence[Entry], usual: Sequence[Entry]) -> str:
    """Return the collective call of the odd ranks, in words that distinguish it from the usual call: its name, or its
    number of elements or types."""
    mine, other = odd[0], usual[0]
    if mine.op != other.op or len(odd) != len(usual):
        return mine.op or "another call"
    counts = [sum(map(elements, entry.sizes)) for entry in (mine, other)]
    if counts[0] != counts[1]:
        return f"{mine.op} of {counts[0]} elements instead of {counts[1]}"
    return f"{mine.op} of {', '.join(mine.dtypes)} instead of {', '.join(other.dtypes)}"


def _place(calls: Iterable[Sequence[Entry]]) -> tuple[str, int, str] | None:
    """Return the place (file, line, function) in the user's code at which the recorded calls were made, if it is the
    same for all. None otherwise."""
    places = {own_frame(each[0]) for each in calls if each}
    return places.pop() if len(places) == 1 else None


def _without_repetition(findings: Iterable[Finding]) -> list[Finding]:
    """Return the first finding for each combination of kind and ranks, which is the earliest. Its text also names the
    ranks that wait for the same ranks in another call."""
    found: dict[tuple[str | None, tuple[int, ...]], Finding] = {}
    elsewhere: dict[tuple[str | None, tuple[int, ...]], set[int]] = {}
    for each in findings:
        key = each.kind, each.ranks
        if key in found:
            elsewhere.setdefault(key, set()).update(each.waiting)
        found.setdefault(key, each)
    for key, ranks in elsewhere.items():
        others = ranks - set(found[key].waiting)
        if others:
            text = f"{found[key].text}; {ranks_text(others)} wait for {ranks_text(key[1])} elsewhere"
            found[key] = found[key]._replace(text=text)
    return list(found.values())
