"""The judgement of a silent run by two samples of the stacks of all ranks: whether it works, else which ranks block it.

A run works if any of its ranks works, since a rank that computes, reads, writes or makes progress keeps all others
waiting. A run hangs if no rank shows progress. Where a rank is at a checkpoint or a compilation, the run is judged to
hang only after a longer time. The same holds where a rank waits for its device, which may be working, unless the device
has been seen to be idle.

In a hang, if some ranks wait in a collective call and others are elsewhere, the ranks that are elsewhere are named.
Where ranks wait in different calls, only a minority is named, and only if nothing shows that the calls belong to
different process groups. A wrong name costs more than none.

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
"""Calls that wait until another process, which may be another rank, releases a lock."""


_CONNECTIONS = ("a socket", "accept", "connect", "recv", "sendall", "select", "poll", "flush", "write")
"""Calls that wait for the other end of a connection, which may be another rank."""


class StackJudgement(NamedTuple):
    """The result of judging a silent run by its stacks.

    alive     whether the run works, or may work
    reason    the reason for `alive`, in words, without a full stop
    findings  the findings for the verdict on a hang; empty if the run is alive, else at least one
    groups    the ranks with equal stacks, the smallest group first, one line for each group
    summary   the summary of this look, for the judgement of the next one
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
    """Return the judgement of a look at a silent run, which consists of two samples of its stacks.

    before, after  the two samples: all processes of all ranks of all nodes
    limit          seconds of silence after which a run is looked at
    ended          the exit codes of the ranks that have ended, by rank
    former         the looks at this run since its last sign of life, the oldest first
    hertz          clock ticks per second
    silent         seconds since the last sign of life; None: estimated from the looks, the first of which comes after
                   `limit` at the earliest
    idle           ranks whose devices have been seen to be idle
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
            continue  # the time that a pure Python loop may take is not limited
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
    """Return the looks at all ranks, by rank, for a run that is judged to hang: a rank that has worked for too long (it
    computes, wakes up, or waits for its device) gets the activity `WAITS` if it waits for an action of all ranks, else
    `STANDS`.

    A rank that computes without holding Python's lock becomes UNSEEN if any rank waits for its device: it may wait for
    its device as well, so its activity is not known.
    """
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
    """Return the findings about which ranks of a hanging run block the others, by the looks at all ranks; a list of at
    least one Finding. `ended` maps ended ranks to their exit codes, and `too_long` maps ranks to the seconds that they
    have spent in one place."""
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
    """Return the Finding about the ranks `odd`, which are elsewhere while `others` wait in a collective call or at the
    rendezvous. The Finding names no rank if `odd` is not a clear minority; `unseen` is the number of ranks whose
    activity is unknown."""
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
    """Return the name of the collective call that the rank of `look` is still in and that all ranks in `others` have
    left; "" if there is none. Either the rank is stopped in this call, or its user code is called from within it."""
    within = look.wait if look.activity == STOPPED and look.wait.kind == COLLECTIVE else look.inside
    if within is None or within.user_frame is None:
        return ""
    have_left = all(line_of(looks[rank].wait.user_frame) != line_of(within.user_frame) for rank in others)
    return within.call if have_left else ""


def _without_calls(
    ranks: tuple[int, ...], looks: Mapping[int, RankLook], ended: Mapping[int, int], unseen: int
) -> Finding:
    """Return the Finding for a hang in which none of `ranks` waits in a collective call. It names ranks as the cause in
    three cases: all wait for data at one line, all but one wait for the same lock, or a single rank is left after
    others ended."""
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
    """Return whether the stacks show that a rank waits for its data loader, or for a file that no other rank can
    withhold."""
    return look.wait.kind == LOADER or (look.wait.kind == IO and look.wait.call not in _CONNECTIONS)


def _in_calls(ranks: tuple[int, ...], looks: Mapping[int, RankLook], ended: Mapping[int, int], unseen: int) -> Finding:
    """Return the Finding for a hang in which all of `ranks` wait in collective calls or at the rendezvous. It names the
    minority that waits in another call than most, as the cause only if this is one rank and all calls are known to be
    of one process group. It names no rank if there is no clear minority in a single call, or if some ranks have ended.
    """
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
    """Return the name of the call that a rank waits in, and the line of the user's code that made this call; None for
    an unknown line."""
    return look.wait.call, line_of(look.wait.user_frame)


def _waits(ranks: Sequence[int]) -> str:
    return f"{ranks_text(ranks)} {'waits' if len(ranks) == 1 else 'wait'}"


def _call_of(ranks: Iterable[int], looks: Mapping[int, RankLook]) -> str:
    """Return the name of the call that most of `ranks` wait in."""
    return Counter(looks[rank].wait.call for rank in ranks).most_common(1)[0][0]


def _wait_text(look: RankLook) -> str:
    frame = look.wait.user_frame
    return f"{look.wait.call} {place_words(frame)}" if frame is not None else look.wait.call


def _where_text(ranks: Sequence[int], looks: Mapping[int, RankLook]) -> str:
    """Return the places of ranks in words, such as " is stopped at train.py:41 in main", to follow the ranks' names in
    a sentence. At most two different places are included."""
    found = []
    for place in dict.fromkeys(looks[rank].place for rank in ranks):
        stopped = all(looks[rank].activity == STOPPED for rank in ranks)
        verb = "is" if len(ranks) == 1 else "are"
        what = f" {verb} stopped" if stopped else f" {verb}"
        found.append(f"{what} {place_words(place)}" if place is not None else f"{what} in an unknown place")
    return " and".join(found[:2])


def _plain(frame: Frame | None) -> tuple[str, int, str] | None:
    return (frame.file, frame.line, frame.name) if frame is not None else None
