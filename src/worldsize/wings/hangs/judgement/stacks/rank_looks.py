"""The state of one rank, from two samples of its processes: it waits for all ranks, waits elsewhere, computes, or makes
progress.

Pure; standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.stacks.collective_waits import (
    Wait,
    is_library,
    is_native,
    own_frames,
    user_frame_of,
    wait_by_line,
    wait_of,
    work_of,
)
from worldsize.wings.hangs.judgement.stacks.long_work import LongWork, work_of_program
from worldsize.wings.hangs.judgement.stacks.rank_activity import (
    FOR_ALL,
    UNSEEN,
    Samples,
    activity_of,
    callback_of,
    spent_beside,
    wait_of_rank,
)
from worldsize.wings.hangs.judgement.stacks.rank_stacks import RAN_ON, Frame, RankStacks
from worldsize.wings.hangs.judgement.stacks.wait_rules import (
    CHILD,
    COLLECTIVE,
    DEVICE,
    LOADER,
    LOCK,
    LOCK_FILE,
    MAY,
    START,
)


class RankLook(NamedTuple):
    """The state of one rank.

    activity  one of the words of `rank_activity`
    wait      the wait of its main thread
    place     its place for display: that of the process and the thread that is the cause; None if unknown
    inside    the call of several ranks in which its own code was called, as by unpickling or a callback, and the
              place of that call; None for none
    own       its user functions, the innermost first, with the lines of all but the innermost; () if the two
              samples differ in them
    exact     all its frames; () if the two samples differ in them
    is_pure   whether Python itself runs in the user's own code, in both samples
    what      the evidence of progress, in words
    work      the checkpoint or the compilation that it is at, though nothing shows progress
    is_native whether its main thread computes without Python's lock, so that it may wait for its device
    spent     CPU time so far, in seconds, of threads that use none while it waits for its device
    """

    rank: int
    activity: str
    wait: Wait
    place: Frame | None
    inside: Wait | None
    own: tuple[tuple[str, str, int], ...]
    exact: tuple[tuple[str, str, int], ...]
    is_pure: bool
    what: str = ""
    work: LongWork | None = None
    is_native: bool = False
    spent: float = 0.0


def look_at_ranks(before: Iterable[RankStacks], after: Iterable[RankStacks], hertz: int) -> dict[int, RankLook]:
    """Return the state of each rank (a RankLook), by rank, from the stacks of two samples, `before` and `after`.
    `hertz` is the number of clock ticks in a second. A rank without a sample is left out."""
    first, last = _by_rank(before), _by_rank(after)
    return {rank: _look(rank, first.get(rank, ()), last.get(rank, ()), hertz) for rank in sorted({*first, *last})}


def _by_rank(samples: Iterable[RankStacks]) -> dict[int, list[RankStacks]]:
    found: dict[int, list[RankStacks]] = {}
    for each in samples:
        found.setdefault(each.rank, []).append(each)
    return found


def _look(rank: int, before: Sequence[RankStacks], after: Sequence[RankStacks], hertz: int) -> RankLook:
    first = next((each for each in before if each.parent is None), None)
    last = next((each for each in after if each.parent is None), None)
    if first is None or last is None or last.state in ("Z", "X", ""):
        return RankLook(rank, UNSEEN, Wait("", None, None), None, None, (), (), False)
    former, children = ([each for each in sample if each.parent is not None] for sample in (before, after))
    samples = Samples(first, last, former, children, hertz)
    wait = wait_of_rank(last)
    inside = _inside(last, wait)
    activity, what = activity_of(samples, wait, inside)
    thread = last.main_thread
    return RankLook(
        rank,
        activity,
        wait,
        _place(last, wait, children),
        inside,
        _same(_own(first), _own(last)),
        _same(_exact(first), _exact(last)),
        _is_pure(first) and _is_pure(last),
        what,
        _work(last, wait, children),
        thread is not None and is_native(thread),
        spent_beside(samples, wait),
    )


def _same(
    first: tuple[tuple[str, str, int], ...], last: tuple[tuple[str, str, int], ...]
) -> tuple[tuple[str, str, int], ...]:
    return last if first == last else ()


def _own(stacks: RankStacks) -> tuple[tuple[str, str, int], ...]:
    own = [frame for frame in _frames(stacks) if not is_library(frame.file)]
    return tuple((each.name, each.file, each.line if index else 0) for index, each in enumerate(own))


def _exact(stacks: RankStacks) -> tuple[tuple[str, str, int], ...]:
    return tuple((each.name, each.file, each.line) for each in _frames(stacks))


def _frames(stacks: RankStacks) -> tuple[Frame, ...]:
    """Return the frames of a rank's process that show where it is: those of the user's code that native code has called
    in another thread, and those of the main thread."""
    called, main = callback_of(stacks), stacks.main_thread
    return (*(called.frames if called is not None else ()), *(main.frames if main is not None else ()))


def _is_pure(stacks: RankStacks) -> bool:
    """Return whether Python itself runs in the user's own code of a process: its main thread holds Python's lock, or
    ran while it was read, at a line without a known call into C."""
    thread = stacks.main_thread
    if thread is None or not thread.frames or is_library(thread.frames[0].file):
        return False
    runs = stacks.problem.startswith(RAN_ON) if thread.holds_gil is None else thread.holds_gil
    return runs and wait_by_line(thread.frames[0].text)[0] is None


def _inside(stacks: RankStacks, wait: Wait) -> Wait | None:
    """Return the call of several ranks from which the user's innermost code in the main thread was called, for example
    as a callback. None if there is none."""
    thread = stacks.main_thread
    if thread is None or wait.user_frame is None:
        return None
    if wait.kind in (MAY, COLLECTIVE):
        return wait if callback_of(stacks) is not None else None
    if wait.kind in (START, DEVICE):
        return None
    outer = thread.frames[thread.frames.index(wait.user_frame) + 1 :]
    found = wait_of(thread._replace(frames=outer, active=False)) if outer else wait
    while outer and found.kind not in FOR_ALL and found.user_frame is not None:
        outer = outer[outer.index(found.user_frame) + 1 :]
        found = wait_of(thread._replace(frames=outer, active=False)) if outer else wait
    is_library = bool(outer) and outer[0] != found.user_frame
    return found if outer and is_library and found.kind in FOR_ALL else None


def _place(stacks: RankStacks, wait: Wait, children: Sequence[RankStacks]) -> Frame | None:
    """Return the frame of the user's code that best shows where a rank is: in a worker of the data loader, in a
    callback, else in the main thread, else, if that has left the user's code, in another thread. None if there is none.
    """
    if wait.kind == LOADER:
        places = {frame for frame in (_place_in_child(each) for each in children) if frame is not None}
        if len(places) == 1:
            return places.pop()
    if wait.kind in FOR_ALL:
        called = callback_of(stacks)
        if called is not None:
            return user_frame_of(called.frames)
    if wait.user_frame is not None:
        return wait.user_frame
    found = (user_frame_of(each.frames) for each in stacks.threads if not each.main)
    return next((each for each in found if each is not None), None)


def _work(stacks: RankStacks, wait: Wait, children: Sequence[RankStacks]) -> LongWork | None:
    """Return the checkpoint or compilation that a rank is at: in its main thread, or in the thread or child that this
    waits for. None for a rank that waits in a call of several ranks, or for a file that another process locks."""
    thread = stacks.main_thread
    if thread is None or wait.kind in (COLLECTIVE, START) or wait.call == LOCK_FILE:
        return None
    found = [work_of(thread)]
    if wait.kind == LOCK:
        found += [work_of(each) for each in stacks.threads if each is not thread]
    elif wait.kind == CHILD:
        own = [each.main_thread for each in children]
        found += [work_of(each._replace(frames=own_frames(each))) for each in own if each is not None]
        found += [work_of_program(each.command) for each in children]
    return next((each for each in found if each is not None), None)


def _place_in_child(child: RankStacks) -> Frame | None:
    """Return the innermost frame of the user's code in the main thread of a rank's child process. None if there is
    none. For a fork, the frames of the process that it was forked from do not count."""
    thread = child.main_thread
    if thread is None:
        return None
    return user_frame_of(own_frames(thread))


def activities(looks: Mapping[int, RankLook], *kinds: str) -> tuple[int, ...]:
    """Return the ranks in `looks` whose activity is one of `kinds`, ascending."""
    return tuple(sorted(rank for rank, each in looks.items() if each.activity in kinds))
