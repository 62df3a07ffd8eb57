"""Whether a silent run works, and else which ranks keep the others waiting, by two samples of the stacks of all ranks.

A run works while any of its ranks does: one that computes, reads, writes or goes on lets all others wait. It stands
still when no rank shows that it goes on; where one is at a checkpoint or a compilation, only after a longer time, and
so where one waits for its device, which may work, unless that is seen to do nothing. Then
ranks that are elsewhere than in a call of several ranks are named, where the others wait in one. Ranks that wait in
different calls are named only by the majority, and only where nothing shows that the calls are those of different
groups; a wrong name costs more than none.

Pure; standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.finding import (
    NOT_ENTERED,
    NOT_LEFT,
    OTHER_CALL,
    STACKS,
    Finding,
    against_text,
    is_minority,
    ranks_text,
    told,
)
from worldsize.wings.hangs.judgement.stacks.call_lines import is_of_one_group
from worldsize.wings.hangs.judgement.stacks.long_work import LongWork
from worldsize.wings.hangs.judgement.stacks.look_history import LookSummary, seconds_in_place, summary_of
from worldsize.wings.hangs.judgement.stacks.rank_activity import (
    AT_DEVICE,
    COMPUTES,
    FOR_ALL,
    HELD,
    MEETS,
    MOVES,
    STANDS,
    STOPPED,
    UNSEEN,
    WAITS,
    WAKES,
    line_of,
)
from worldsize.wings.hangs.judgement.stacks.rank_looks import RankLook, activities, look_at_ranks
from worldsize.wings.hangs.judgement.stacks.rank_stacks import Frame, RankStacks
from worldsize.wings.hangs.judgement.stacks.stack_groups import group_line, group_ranks, place_words
from worldsize.wings.hangs.judgement.stacks.wait_rules import COLLECTIVE, DEVICE, IO, LOADER, LOCK_FILE
from worldsize.wings.hangs.judgement.watch import LONG_WORK_FACTOR

_COMMON_LOCKS = ("flock", "lockf", LOCK_FILE)
"""Waits that end when another process lets go: that may be another rank."""


_CONNECTIONS = ("a socket", "accept", "connect", "recv", "sendall", "select", "poll", "flush", "write")
"""Waits in which another rank may be at the other end."""


class StackJudgement(NamedTuple):
    """What the stacks say of a silent run.

    alive     whether it works, or may
    reason    why, in words, without a full stop
    findings  what they say to the verdict on a hang; none where it works, else at least one
    groups    the ranks with equal stacks, the smallest group first, a line each
    summary   of this look, for the judgement of the next
    """

    alive: bool
    reason: str
    findings: tuple[Finding, ...]
    groups: tuple[str, ...]
    summary: LookSummary


def judge_stacks(
    before: Sequence[RankStacks],
    after: Sequence[RankStacks],
    world_size: int,
    limit: float,
    ended: Mapping[int, int] | None = None,
    former: Sequence[LookSummary] = (),
    hertz: int = 100,
    silent: float | None = None,
    idle: Collection[int] = (),
) -> StackJudgement:
    """Return the judgement of a look.

    before, after  the two samples: all processes of all ranks of all nodes
    limit          seconds of silence after which a run is looked at
    ended          by rank that has ended, its exit code
    former         the looks at this run since its last sign of life, the oldest first
    hertz          clock ticks in a second
    silent         seconds since the last sign of life; None: as many as the looks tell, of which the first comes after
                   `limit` at the earliest
    idle           ranks whose devices have been seen to do nothing
    """
    codes = dict(ended or {})
    looks = {rank: each for rank, each in look_at_ranks(before, after, hertz).items() if rank not in codes}
    at = max((each.time for each in after), default=0.0)
    summary = summary_of(at, looks)
    history = [*former, summary]
    groups = tuple(group_line(group) for group in group_ranks(each for each in after if each.rank not in codes))
    too_long: dict[int, float] = {}
    is_waited_for = len(activities(looks, COMPUTES)) < len(looks)
    for rank in activities(looks, COMPUTES, WAKES, AT_DEVICE):
        if looks[rank].activity == COMPUTES and looks[rank].is_pure and not is_waited_for:
            continue  # its loop in Python may take as long as it likes
        seconds = seconds_in_place(rank, history, limit)
        if seconds is not None:
            too_long[rank] = seconds
    at_device = [rank for rank in activities(looks, AT_DEVICE) if rank not in idle]
    working = [*activities(looks, COMPUTES, WAKES, MOVES, HELD), *at_device]
    working = [rank for rank in working if rank not in too_long]
    if working:
        return StackJudgement(True, _working_text(working, looks), (), groups, summary)
    if not activities(looks, WAITS, WAKES, MEETS, STANDS, STOPPED, COMPUTES, AT_DEVICE):
        return StackJudgement(True, "no rank's stack is known", (), groups, summary)
    if all(each.activity in (STOPPED, UNSEEN) for each in looks.values()):
        return StackJudgement(True, "all ranks are stopped, as those of a suspended job are", (), groups, summary)
    at_work = [rank for rank, each in looks.items() if each.work is not None and each.activity != STOPPED]
    silence = at - history[0].at + limit if silent is None else silent
    if at_work and silence < LONG_WORK_FACTOR * limit:
        return StackJudgement(True, _long_work_text(at_work, looks), (), groups, summary)
    findings = _findings(_without_work(looks), codes, world_size, too_long)
    return StackJudgement(False, findings[0].text, tuple(findings), groups, summary)


def _working_text(ranks: Sequence[int], looks: Mapping[int, RankLook]) -> str:
    first = looks[ranks[0]]
    at = f" {place_words(first.place)}" if first.place is not None else ""
    more = f"; {ranks_text(ranks[1:])} as well" if len(ranks) > 1 else ""
    return f"rank {ranks[0]}: {first.what}{at}{more}"


def _long_work_text(ranks: Sequence[int], looks: Mapping[int, RankLook]) -> str:
    first = looks[ranks[0]]
    work = first.work or LongWork("", "")
    at = f" {place_words(first.place)}" if first.place is not None else ""
    more = f"; {ranks_text(ranks[1:])} as well" if len(ranks) > 1 else ""
    return f"rank {ranks[0]} {work.what} ({work.call}{at}){more}"


def _without_work(looks: Mapping[int, RankLook]) -> dict[int, RankLook]:
    """Return the looks, of ranks that have been at work for too long as what they do otherwise. One that computes
    without Python's lock, while others wait for their devices, may do so as well: what it does is not known."""
    has_devices = any(each.wait.kind == DEVICE for each in looks.values())
    found = {}
    for rank, each in looks.items():
        if each.activity == COMPUTES and each.is_native and has_devices:
            each = each._replace(activity=UNSEEN)
        elif each.activity in (COMPUTES, WAKES, AT_DEVICE):
            each = each._replace(activity=WAITS if each.wait.kind in FOR_ALL and each.inside is None else STANDS)
        found[rank] = each
    return found


def _findings(
    looks: Mapping[int, RankLook], ended: Mapping[int, int], world_size: int, too_long: Mapping[int, float]
) -> list[Finding]:
    """What is said of ranks that stand still; never nothing."""
    waiting, meeting = activities(looks, WAITS), activities(looks, MEETS)
    elsewhere = activities(looks, STANDS, STOPPED)
    unseen = max(0, world_size - len(ended) - len(looks)) + len(activities(looks, UNSEEN))
    if waiting and meeting and is_minority(meeting, waiting):
        elsewhere, meeting = tuple(sorted((*elsewhere, *meeting))), ()
    others = tuple(sorted((*waiting, *meeting)))
    if elsewhere and others:
        return [_not_entered(elsewhere, others, looks, unseen, too_long)]
    if elsewhere:
        return [_without_calls(elsewhere, looks, ended, unseen)]
    return [_in_calls(others, looks, ended, unseen)]


def _not_entered(
    odd: tuple[int, ...],
    others: tuple[int, ...],
    looks: Mapping[int, RankLook],
    unseen: int,
    too_long: Mapping[int, float],
) -> Finding:
    """Of ranks that are elsewhere, while others wait in a call of several ranks or for the meeting."""
    call = _call_of(others, looks)
    places = {looks[rank].place for rank in odd}
    where = _where_text(odd, looks)
    seconds = max((too_long[rank] for rank in odd if rank in too_long), default=None)
    since = "" if seconds is None else f" for {seconds:.0f} s or more"
    text = f"{ranks_text(odd)}{where}{since}, while {_waits(others)} in {call}"
    if not is_minority(odd, others, unseen):
        return told(STACKS, f"{text}: {against_text(odd, others, unseen)}")
    place = places.pop() if len(places) == 1 else None
    kept = {_kept_in(looks[rank], others, looks) for rank in odd}
    if "" in kept or len(kept) > 1:
        return Finding(STACKS, NOT_ENTERED, odd, call, None, others, _plain(place), text)
    return Finding(STACKS, NOT_LEFT, odd, kept.pop(), None, others, _plain(place), text)


def _kept_in(look: RankLook, others: Iterable[int], looks: Mapping[int, RankLook]) -> str:
    """Return the call that it is in and all others have left: it is stopped there, or its own code is called within it;
    "" for none."""
    within = look.wait if look.activity == STOPPED and look.wait.kind == COLLECTIVE else look.inside
    if within is None or within.user_frame is None:
        return ""
    have_left = all(line_of(looks[rank].wait.user_frame) != line_of(within.user_frame) for rank in others)
    return within.call if have_left else ""


def _without_calls(
    ranks: tuple[int, ...], looks: Mapping[int, RankLook], ended: Mapping[int, int], unseen: int
) -> Finding:
    """Of ranks none of which waits in a call of several ranks."""
    where = _where_text(ranks, looks)
    text = f"{ranks_text(ranks)}{where}; no rank waits in a call of several ranks"
    places = {line_of(looks[rank].place) for rank in ranks}
    is_of_none = all(_waits_for_data(looks[rank]) for rank in ranks)
    if is_of_none and len(places) == 1 and None not in places and not ended and not unseen:
        return Finding(STACKS, NOT_ENTERED, ranks, "", None, (), _plain(looks[ranks[0]].place), text)
    locked = tuple(rank for rank in ranks if looks[rank].wait.call in _COMMON_LOCKS)
    others = tuple(rank for rank in ranks if rank not in locked)
    of_one_lock = len({line_of(looks[rank].place) for rank in locked}) == 1
    if len(others) == 1 and of_one_lock and len(locked) > 1 and not ended and not unseen:
        place, call = looks[others[0]].place, looks[locked[0]].wait.call
        said = f"{ranks_text(others)}{_where_text(others, looks)}, while {_waits(locked)} for a lock in {call}"
        return Finding(STACKS, NOT_ENTERED, others, call, None, locked, _plain(place), said)
    if len(ranks) == 1 and ended and looks[ranks[0]].activity != STOPPED:
        alone = looks[ranks[0]]
        return Finding(STACKS, NOT_ENTERED, ranks, "", None, (), _plain(alone.place), text)
    return told(STACKS, text)


def _waits_for_data(look: RankLook) -> bool:
    """Return whether it waits for files, which no other rank keeps from it, or for its loader."""
    return look.wait.kind == LOADER or (look.wait.kind == IO and look.wait.call not in _CONNECTIONS)


def _in_calls(ranks: tuple[int, ...], looks: Mapping[int, RankLook], ended: Mapping[int, int], unseen: int) -> Finding:
    """Of ranks all of which wait in calls of several ranks, or for the meeting."""
    groups: dict[object, list[int]] = {}
    for rank in ranks:
        groups.setdefault(_call(looks[rank]), []).append(rank)
    shown = [f"{_waits(each)} in {_wait_text(looks[each[0]])}" for each in sorted(groups.values(), key=len)]
    text = "; ".join(shown)
    if len(groups) == 1:
        return told(STACKS, f"all remaining ranks wait in {_wait_text(looks[ranks[0]])}")
    usual = max(groups.values(), key=len)
    odd = tuple(rank for rank in ranks if rank not in usual)
    if ended or not is_minority(odd, usual, unseen) or len({_call(looks[rank]) for rank in odd}) > 1:
        return told(STACKS, text)
    is_sure = len(odd) == 1 and len(usual) > 1 and all(is_of_one_group(looks[rank].wait) for rank in ranks)
    first, call = looks[odd[0]], looks[usual[0]].wait.call
    place, kind = _plain(first.wait.user_frame), OTHER_CALL if is_sure else None
    entered = first.wait.call if first.wait.kind != DEVICE else ""
    return Finding(STACKS, kind, odd, call, None, tuple(usual), place, text, entered=entered)


def _call(look: RankLook) -> tuple[str, tuple[str, int] | None]:
    """Return the call that it waits in, and the user's line that has made it."""
    return look.wait.call, line_of(look.wait.user_frame)


def _waits(ranks: Sequence[int]) -> str:
    return f"{ranks_text(ranks)} {'waits' if len(ranks) == 1 else 'wait'}"


def _call_of(ranks: Iterable[int], looks: Mapping[int, RankLook]) -> str:
    """Return the call that most of the ranks wait in."""
    return Counter(looks[rank].wait.call for rank in ranks).most_common(1)[0][0]


def _wait_text(look: RankLook) -> str:
    frame = look.wait.user_frame
    return f"{look.wait.call} {place_words(frame)}" if frame is not None else look.wait.call


def _where_text(ranks: Sequence[int], looks: Mapping[int, RankLook]) -> str:
    """ " is stopped at train.py:41 in main": of several ranks in different places, of the first two."""
    found = []
    for place in dict.fromkeys(looks[rank].place for rank in ranks):
        stopped = all(looks[rank].activity == STOPPED for rank in ranks)
        verb = "is" if len(ranks) == 1 else "are"
        what = f" {verb} stopped" if stopped else f" {verb}"
        found.append(f"{what} {place_words(place)}" if place is not None else f"{what} in an unknown place")
    return " and".join(found[:2])


def _plain(frame: Frame | None) -> tuple[str, int, str] | None:
    return (frame.file, frame.line, frame.name) if frame is not None else None
