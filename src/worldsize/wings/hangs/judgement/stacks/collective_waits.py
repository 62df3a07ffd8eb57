"""The wait of a thread, from its stack: for other ranks in a collective call or at the start, for its data loader, a
child process, a lock, time, or a file. Also the line of the user's own code that the thread is in, and its long work.

Pure; standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.stacks.long_work import (
    COMPILES,
    KNOWN_FRAMES,
    LongWork,
    innermost_work,
    work_of_frames,
    work_of_line,
)
from worldsize.wings.hangs.judgement.stacks.rank_stacks import Frame, RankStacks, ThreadStack
from worldsize.wings.hangs.judgement.stacks.wait_rules import (
    CHILD,
    COLLECTIVE,
    DEVICE,
    FRAME_RULES,
    IO,
    LINE_RULES,
    LOADER,
    LOCK,
    MAY,
    SLEEP,
    START,
)

KINDS = (START, COLLECTIVE, MAY, DEVICE, LOADER, CHILD, LOCK, SLEEP, IO)
"""The kinds of waits. If the frames of one thread show several, the first of these counts: a start calls collectives,
which use locks."""

BACKWARD = "backward"
"""The call of autograd, which waits for other ranks, or for a device, or computes."""

FOR_CHILDREN = (LOADER, CHILD)
"""The kinds of waits for work of other processes of the same rank."""

_LIBRARY = re.compile(
    r"(?:^|/)(?:site-packages|dist-packages|worldsize_inrank)/|/lib(?:64)?/python\d(?:\.\d+)?/|/python\d+\.zip/"
    r"|^<frozen |^<__array_function__|/inrank/sitecustomize\.py$|worldsize/wings/\w+/inrank/|(?:^|/)bin/[\w-]+$"
    r"|\.so(?:\.\d+)*$|/[a-z2-7]{2}/c[a-z2-7]{51}\.py$"
)
"""Pattern of files that are not the user's own: Python's and its packages', the hook's, programs such as torchrun, and
files that torch.compile has written."""

_STARTS_OF_CHILDREN = re.compile(r"multiprocessing/(?:process|popen_\w+|forkserver|spawn)\.py$")
_BACKWARD = re.compile(r"torch/autograd/graph\.py$")
_OUTERMOST = frozenset((START, COLLECTIVE, MAY, DEVICE, LOADER, CHILD))
"""The kinds for which the outermost call of a library counts, since the user's code has called it: `all_gather_object`
rather than `all_gather`. For the other kinds the innermost call is more informative."""


_KNOWN_STATES = ("R", "S", "D")


class Wait(NamedTuple):
    """The wait of a thread. `call` is the function, "" if `kind` is None. `kind` is one of KINDS; None if no wait is
    known, so that the thread may compute. `user_frame` is the innermost frame of the user's own code; None if there is
    none."""

    call: str
    kind: str | None
    user_frame: Frame | None


def is_library(file: str) -> bool:
    """Return whether the source file `file` of a frame belongs to Python, to a package, or to a program that starts
    scripts. True for code without a file."""
    return not file or _LIBRARY.search(file) is not None


def user_frame_of(frames: Sequence[Frame]) -> Frame | None:
    """Return the innermost frame of the user's own code; None if there is none."""
    return next((frame for frame in frames if not is_library(frame.file)), None)


def called_frames(frames: Sequence[Frame]) -> Sequence[Frame]:
    """Return the frames of a stack that the innermost frame of the user's code has called. Return all frames if none is
    the user's own."""
    return frames[: next((index for index, each in enumerate(frames) if not is_library(each.file)), len(frames))]


def own_frames(stack: ThreadStack) -> tuple[Frame, ...]:
    """Return the frames of the stack of a child process's thread, without those of the process that it was forked
    from."""
    for index, frame in enumerate(stack.frames):
        if frame.name == "_bootstrap" and _STARTS_OF_CHILDREN.search(frame.file):
            return stack.frames[:index]
    return stack.frames


def wait_of(stack: ThreadStack | None) -> Wait:
    """Return what a thread waits for, according to its stack (a Wait, whose `kind` is None if no wait is known).

    The frames that the user's code has called count, from the innermost to the user's own. If they show nothing, the
    source of the innermost line may, if it is known and the thread does not compute. A thread that computes and holds
    Python's lock waits for no lock, time or file, even if its frames show such a call. A thread that computes without
    that lock may wait for its device, which is polled. A call that has led to a checkpoint or to a compilation waits
    for that work: autograd compiles before it calls.
    """
    if stack is None:
        return Wait("", None, None)
    user = user_frame_of(stack.frames)
    called = called_frames(stack.frames)
    called = called[: innermost_work(called) + 1]
    found = [each for each in (_wait_by_frame(frame, stack) for frame in called) if each is not None]
    for kind in KINDS[: KINDS.index(LOCK)] if stack.active and stack.holds_gil else KINDS:
        calls = [call for each, call in found if each == kind]
        if calls:
            return Wait(calls[-1] if kind in _OUTERMOST else calls[0], kind, user)
    by_line, call = wait_by_line(stack.frames[0].text) if stack.frames else (None, "")
    if stack.active and not (by_line == DEVICE and is_native(stack)):
        return Wait("", None, user)
    return Wait(call, by_line, user)


def is_native(stack: ThreadStack) -> bool:
    """Return whether a thread computes without Python's lock, according to its stack. It is in native code then, which
    may be code that polls a device."""
    return stack.active is True and stack.holds_gil is False


def work_of(stack: ThreadStack) -> LongWork | None:
    """Return the long work that a thread is at, according to its stack: a checkpoint or a compilation. None if there is
    none, and for a thread that waits for other ranks within such work."""
    if wait_of(stack).kind in (COLLECTIVE, START):
        return None
    called = called_frames(stack.frames)
    return work_of_frames(called) or (work_of_line(stack.frames[0].text) if stack.frames and not called else None)


def may_wait_for_children(stacks: RankStacks) -> bool:
    """Return whether the main thread of a rank's process waits for other processes of the same rank, or compiles, which
    those may do for it."""
    thread = stacks.main_thread
    work = work_of(thread) if thread is not None else None
    return wait_of_process(stacks).kind in FOR_CHILDREN or (work is not None and work.what == COMPILES)


def wait_of_process(stacks: RankStacks) -> Wait:
    """Return what the main thread of a rank's process waits for. If its stack does not show whether it computes, or
    what it waits for, the kernel's values for the process do."""
    thread = stacks.main_thread
    if thread is not None and thread.active is None and stacks.state in _KNOWN_STATES:
        thread = thread._replace(active=stacks.state == "R")
    wait = wait_of(thread)
    if wait.kind is None and stacks.state == "D":
        return Wait("a disk", IO, wait.user_frame)
    if wait.kind is None and stacks.wait_channel == "hrtimer_nanosleep":
        return Wait("sleep", SLEEP, wait.user_frame)
    if wait.kind is None and stacks.wait_channel == "do_wait":
        return Wait("wait", CHILD, wait.user_frame)
    return wait


def _wait_by_frame(frame: Frame, stack: ThreadStack) -> tuple[str, str] | None:
    """Return the kind of wait and the call that one frame of a stack shows; None if the frame shows none. Autograd
    waits in C++ for the collectives of DistributedDataParallel, and also computes or waits for a device there. Only a
    source that knows whether the thread computes can distinguish these."""
    if frame.name == "_engine_run_backward" and _BACKWARD.search(frame.file):
        if stack.active:
            return (DEVICE, BACKWARD) if is_native(stack) else None
        return COLLECTIVE if stack.active is False else MAY, BACKWARD
    return _wait_by_rules(frame)


@lru_cache(KNOWN_FRAMES)
def _wait_by_rules(frame: Frame) -> tuple[str, str] | None:
    name = frame.name
    for rule in FRAME_RULES:
        if rule.function.fullmatch(name) and rule.file.search(frame.file):
            own = frame.function if rule.kind == LOCK else name
            return rule.kind, rule.call or own
    return None


def wait_by_line(text: str) -> tuple[str | None, str]:
    """Return the kind of wait and the call that a source line's call into C shows. None and "" if no rule matches."""
    code = text.partition("#")[0]
    for rule in LINE_RULES:
        match = rule.line.search(code)
        if match is not None:
            return rule.kind, next(filter(None, match.groups()), "")
    return None, ""
