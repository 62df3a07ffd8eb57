"""Groups of ranks with equal stacks, the comparison of two samples of one process, and descriptions of groups.

The smallest group comes first, since the odd rank is often the cause of a hang.

Pure; standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from worldsize.common.atomic_files import printable_text
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import span_words
from worldsize.wings.hangs.judgement.stacks.collective_waits import Wait, wait_of_process
from worldsize.wings.hangs.judgement.stacks.rank_stacks import Frame, RankStacks
from worldsize.wings.hangs.judgement.stacks.wait_rules import (
    CHILD,
    COLLECTIVE,
    DEVICE,
    IO,
    LOADER,
    LOCK,
    MAY,
    SLEEP,
    START,
)

SAME, MOVED, ELSEWHERE = "same", "moved", "elsewhere"

_WORDS = {
    COLLECTIVE: "waits in {}",
    START: "waits at the start in {}",
    MAY: "may wait in {}",
    DEVICE: "waits for its device in {}",
    LOADER: "waits for the workers of its {}",
    CHILD: "waits for a child process in {}",
    LOCK: "waits for a lock in {}",
    SLEEP: "sleeps in {}",
    IO: "reads or writes in {}",
}
_STATES = {
    "T": "is stopped (SIGSTOP)",
    "t": "is held by a debugger",
    "Z": "has ended",
    "X": "has ended",
    "": "has ended",
    "D": "waits for a disk or a file server",
}
_OF_SEVERAL = {
    "waits": "wait",
    "sleeps": "sleep",
    "reads": "read",
    "writes": "write",
    "computes": "compute",
    "shows": "show",
    "is": "are",
    "has": "have",
}
"""The plural forms of the verbs in descriptions, by the singular form."""

_AMBIGUOUS = ("__init__.py", "__main__.py")
"""Names of files that are shown together with the name of their folder."""


class StackGroup(NamedTuple):
    """A group of ranks whose own Python processes have equal stacks.

    ranks    the ranks, ascending
    example  the process of the first of these ranks
    wait     what the main thread of that process waits for
    """

    ranks: tuple[int, ...]
    example: RankStacks
    wait: Wait


def group_ranks(found: Iterable[RankStacks]) -> tuple[StackGroup, ...]:
    """Return the ranks of one sample of stacks as groups with equal stacks (StackGroup), the smallest group first. Only
    processes without a parent in the sample, the ranks' own Pythons, are considered.

    Two stacks are equal if all frames of their main threads have the same function, file and line, and the processes
    are in the same state where one is stopped, traced or ended. Without a stack, two processes are equal if their
    states and the kernel functions that they wait in are equal.
    """
    groups: dict[tuple[object, ...], list[RankStacks]] = {}
    for each in found:
        if each.parent is None:
            groups.setdefault(_key(each), []).append(each)
    made = [_group(each) for each in groups.values()]
    return tuple(sorted(made, key=lambda group: (len(group.ranks), group.ranks)))


def _group(members: list[RankStacks]) -> StackGroup:
    members.sort(key=lambda each: (each.rank, each.pid))
    return StackGroup(tuple(sorted({each.rank for each in members})), members[0], wait_of_process(members[0]))


def _key(stacks: RankStacks) -> tuple[object, ...]:
    frames = _places(stacks)
    held = stacks.state in ("T", "t", "Z", "X", "")
    return (frames, held and stacks.state) if frames else (None, stacks.state, stacks.wait_channel)


def _places(stacks: RankStacks) -> tuple[tuple[str, str, int], ...]:
    thread = stacks.main_thread
    return tuple((frame.name, frame.file, frame.line) for frame in thread.frames) if thread is not None else ()


def compare_samples(before: RankStacks, after: RankStacks) -> str | None:
    """Return how the main thread of one rank has changed between two samples. The result is "same" if no change is
    visible, "moved" if the thread is in the same calls but on another line, and "elsewhere" if it is in other calls or
    the process is another one. None if either sample has no stack."""
    first, second = _places(before), _places(after)
    if not first or not second:
        return None
    if before.pid != after.pid:
        return ELSEWHERE
    if first == second:
        return SAME
    return MOVED if [each[:2] for each in first] == [each[:2] for each in second] else ELSEWHERE


def computing_share(before: RankStacks, after: RankStacks, hertz: int) -> float | None:
    """Return the average number of CPU cores that the threads of a process have used between two samples of its stacks.
    None if it is unknown, for example because the process is another one. `hertz` is the number of clock ticks per
    second. A thread that started or ended between the samples is not counted."""
    seconds = after.time - before.time
    known = {work.id: work.ticks for work in before.work}
    used = [work.ticks - known[work.id] for work in after.work if work.id in known]
    if before.pid != after.pid or seconds <= 0 or hertz <= 0 or not used or min(used) < 0:
        return None
    return sum(used) / hertz / seconds


def group_line(group: StackGroup) -> str:
    """Return a one-line description of a group of ranks with equal stacks, such as "ranks 0-2,4: wait in all_reduce at
    train.py:41 in main"."""
    words = process_words(group.example)
    return f"{_ranks_words(group.ranks)}: {words if len(group.ranks) == 1 else words_of_several(words)}"


def words_of_several(words: str) -> str:
    """Return a description of what one rank does, such as "reads or writes in read", with its verbs in the plural:
    "read or write in read"."""
    first, *others = words.split(" or ", 1)
    return " or ".join(map(_first_of_several, (first, *others)))


def _first_of_several(words: str) -> str:
    verb, space, rest = words.partition(" ")
    return _OF_SEVERAL.get(verb, verb) + space + rest


def _ranks_words(ranks: Sequence[int]) -> str:
    return "rank{} {}".format("" if len(ranks) == 1 else "s", ",".join(span_words(ranks)))


def process_words(stacks: RankStacks) -> str:
    """Return a one-line description of what the sampled process of a rank does, and at which line of Python, such as
    "waits in all_reduce at train.py:41 in main" or "is stopped (SIGSTOP)"."""
    wait = wait_of_process(stacks)
    thread = stacks.main_thread
    place = wait.user_frame or (thread.frames[0] if thread is not None and thread.frames else None)
    if stacks.state in "TtZX":
        what = _STATES[stacks.state]
    elif wait.kind is not None and place is not None:
        what = _WORDS[wait.kind].format(printable_text(wait.call))
    elif stacks.state == "D" or place is None:
        what = _STATES.get(stacks.state, "shows no stack of Python")
        if place is None and stacks.wait_channel and stacks.state == "S":
            what += f" (the kernel waits in {stacks.wait_channel})"
    else:
        active = thread is not None and (thread.active or thread.holds_gil)
        what = "computes" if active or stacks.state == "R" else "is"
    return f"{what} {place_words(place)}" if place is not None else what


def place_words(frame: Frame) -> str:
    """Return the place of a stack frame in words, such as "at train.py:41 in main": the file's name, the line if it is
    known, the function."""
    names = frame.file.split("/")
    name = "/".join(names[-2:] if names[-1] in _AMBIGUOUS else names[-1:]) or "?"
    line = f":{frame.line}" if frame.line else ""
    return printable_text(f"at {name}{line} in {frame.function or '?'}")
