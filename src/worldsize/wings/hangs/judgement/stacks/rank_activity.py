"""The activity of one rank's processes between two samples of them, from the kernel's counts and their stacks: whether
they make progress, compute, or wait.

Pure; standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.stacks.collective_waits import (
    BACKWARD,
    FOR_CHILDREN,
    Wait,
    user_frame_of,
    wait_of,
    wait_of_process,
)
from worldsize.wings.hangs.judgement.stacks.rank_stacks import Frame, RankStacks, ThreadStack, ThreadWork
from worldsize.wings.hangs.judgement.stacks.stack_groups import ELSEWHERE, MOVED, compare_samples, computing_share
from worldsize.wings.hangs.judgement.stacks.wait_rules import COLLECTIVE, DEVICE, MAY, SLEEP, START
from worldsize.wings.hangs.judgement.watch import QUIET_BYTES_AT_START

WAITS, MEETS, STANDS, STOPPED = "waits", "meets", "stands", "stopped"
"""Activities of a rank: it waits in a call of several ranks; it waits for all ranks at the start; it waits elsewhere;
it was stopped by a signal."""
COMPUTES, WAKES, MOVES, HELD, UNSEEN = "computes", "wakes", "moves", "held", "unseen"
"""Activities of a rank: it uses the processor; it wakes up now and then, perhaps in vain; it makes progress; a debugger
holds it; it could not be examined."""
AT_DEVICE = "at device"
"""The activity of a rank that waits for its device, which works, or waits for other ranks."""

COMPUTING = 0.1
"""The minimum CPU use, in cores, of a rank that computes. It is low, since the machine may be shared."""

SHARED = 0.02
"""The minimum CPU use, in cores, of a thread that is ready to compute while many share the processor."""

IDLE, IDLE_TIME = 0.002, 0.02
"""The maximum CPU use, in cores and in seconds, of a thread that waits: sampling wakes it up."""

QUIET_BYTES = 4096
"""The maximum number of bytes per second that a waiting rank moves."""

POLL_TIME = 4.0
"""Seconds after which a wait may wake up by itself without any event. PyTorch's loader takes 5."""

FOR_ALL = (COLLECTIVE, MAY, DEVICE)
"""The kinds of waits for an action of all ranks."""

_AUTOGRAD = "pt_autograd_"
"""The prefix of the names of PyTorch's threads for each device, which launch the backward pass."""

_THREADS = re.compile(r"/threading\.py$|concurrent/futures/thread\.py$")

_TORCH = re.compile(r"(?:^|/)torch/(?:distributed/|nn/parallel/|_ops\.py$)")
"""Pattern of the files in which PyTorch's calls of several ranks enter C++."""


class Samples(NamedTuple):
    """Two samples of a rank: of its own Python, and of its children. `hertz` is the number of clock ticks in a
    second."""

    first: RankStacks
    last: RankStacks
    former_children: Sequence[RankStacks]
    children: Sequence[RankStacks]
    hertz: int


def wait_of_rank(stacks: RankStacks) -> Wait:
    """Return what the main thread of a rank's Python waits for. MPI and others spin, or sleep repeatedly, while they
    wait, which lines of the source show. If autograd has threads for devices, the backward pass waits for one of these,
    unless it has called code that waits elsewhere."""
    wait = wait_of_process(stacks)
    thread = stacks.main_thread
    if wait.kind in (None, SLEEP) and thread is not None:
        spinning = wait_of(thread._replace(active=False))
        if spinning.kind in (COLLECTIVE, START) and thread.frames[:1] == (spinning.user_frame,):
            return spinning
    if wait.kind == COLLECTIVE and wait.call == BACKWARD and any(map(_is_autograds, stacks.work)):
        called = wait_of(callback_of(stacks))
        if called.kind in (None, *FOR_ALL):
            return wait._replace(kind=DEVICE)
    return wait


def callback_of(stacks: RankStacks) -> ThreadStack | None:
    """Return the stack of a thread other than the main one that is in the user's own code, called by native code. None
    if there is none."""
    for thread in stacks.threads:
        is_users = user_frame_of(thread.frames) is not None
        if not thread.main and is_users and not _THREADS.search(thread.frames[-1].file):
            return thread
    return None


def activity_of(samples: Samples, wait: Wait, inside: Wait | None) -> tuple[str, str]:
    """Return the rank's activity between two samples, such as WAITS, COMPUTES or MOVES, and the evidence that it makes
    progress, in words. `wait` is the wait of its main thread. `inside` is the call of several ranks that the user's
    innermost code was called from."""
    first, last = samples.first, samples.last
    activity, what = _activity_of_own(samples, wait, inside)
    if activity in (STANDS, WAKES, UNSEEN) and wait.kind not in FOR_ALL:
        activity, what = _activity_of_children(samples, wait) or (activity, what)
        share = computing_share(first, last, samples.hertz)
        if activity != MOVES and share is not None and (share >= COMPUTING or _is_kept_waiting(first, last, share)):
            activity, what = COMPUTES, what or "computes"
    elif activity == WAITS and _is_busy_beside(samples, wait):
        activity, what = WAKES, "other threads of it compute"
    return activity, what


def _is_kept_waiting(first: RankStacks, last: RankStacks, share: float) -> bool:
    """Return whether the main thread of a rank would run, but other threads have the processor: it is ready in both
    samples, or in one of them if it has used some time without waiting. `share` is its CPU use in cores."""
    if first.state == last.state == "R":
        return True
    is_sleepless = _woken(first, last) <= _expected(last.time - first.time)
    return "R" in (first.state, last.state) and is_sleepless and share >= SHARED


def _activity_of_own(samples: Samples, wait: Wait, inside: Wait | None) -> tuple[str, str]:
    """Return the activity of the rank's own Python between two samples, without its children, and the evidence in
    words."""
    first, last = samples.first, samples.last
    states = {first.state, last.state}
    if "t" in states:
        return HELD, "a debugger holds it"
    if "T" in states:
        return (STOPPED, "") if len(states) == 1 else (MOVES, "it was stopped or continued just now")
    seconds = last.time - first.time
    if first.pid != last.pid:
        return MOVES, "it is another process"
    quiet = seconds * (QUIET_BYTES_AT_START if wait.kind == START else QUIET_BYTES)
    if first.moved is not None and last.moved is not None and last.moved - first.moved > quiet:
        return MOVES, "it reads or writes"
    change = compare_samples(first, last)
    if change is None:
        is_still = first.state == last.state and first.wait_channel == last.wait_channel
        return (STANDS if is_still and last.state == "D" else UNSEEN), ""
    if wait.kind in (*FOR_ALL, START) and inside is None:
        return _activity_in_call(samples, wait)
    if change in (MOVED, ELSEWHERE):
        return WAKES, "it moves from line to line"
    sleeps = wait.kind == SLEEP or "hrtimer_nanosleep" in (first.wait_channel, last.wait_channel)
    if _woken(first, last) > _expected(seconds) and not sleeps:
        return WAKES, "it has waited more than once"
    return STANDS, ""


def _activity_in_call(samples: Samples, wait: Wait) -> tuple[str, str]:
    """Return the activity between two samples, and the evidence in words, of a rank that waits in a call of several
    ranks, for all ranks at the start, or for its device."""
    first, last = samples.first, samples.last
    former = wait_of_rank(first)
    if (former.kind, former.call, line_of(former.user_frame)) != (wait.kind, wait.call, line_of(wait.user_frame)):
        return MOVES, "it has reached another call"
    if wait.kind == START:
        return MEETS, ""
    seconds = last.time - first.time
    if wait.call != BACKWARD and _has_used(_share(samples, _is_autograds), seconds):
        return MOVES, "its backward pass has run"
    if wait.kind != DEVICE:
        return (WAITS, "") if _woken(first, last) <= _expected(seconds) else (WAKES, "it has waited more than once")
    own = _share(samples, lambda each: each.id == last.work[0].id)
    if _sleeps(first) and _sleeps(last) and _has_used(own, seconds):
        return MOVES, "it has computed in between"
    return AT_DEVICE, f"its device may work while it waits in {wait.call}"


def spent_beside(samples: Samples, wait: Wait) -> float:
    """Return the CPU time so far, in seconds, of those threads of a rank that use none while the rank waits for its
    device."""
    found = [each.ticks for each in samples.last.work if wait.call != BACKWARD and _is_autograds(each)]
    if _sleeps(samples.last) and samples.last.work:
        found.append(samples.last.work[0].ticks)
    return sum(found) / samples.hertz if samples.hertz > 0 else 0.0


def has_gone_on(spent: float, seconds: float) -> bool:
    """Return whether threads that have used `spent` seconds of CPU in `seconds` have worked: it is more than waiting
    threads use."""
    return spent > max(IDLE_TIME, IDLE * seconds) - 1e-6


def _has_used(share: float | None, seconds: float) -> bool:
    return share is not None and has_gone_on(share * seconds, seconds)


def _sleeps(stacks: RankStacks) -> bool:
    """Return whether the main thread of a process waits in the kernel (state S)."""
    return stacks.state == "S"


def _is_autograds(work: ThreadWork) -> bool:
    return work.name.startswith(_AUTOGRAD)


def _share(samples: Samples, is_wanted: Callable[[ThreadWork], bool]) -> float | None:
    """Return the CPU use, in cores, of those threads of a rank for which `is_wanted` is true, between two samples. None
    if unknown."""
    first, last = (each._replace(work=tuple(filter(is_wanted, each.work))) for each in (samples.first, samples.last))
    return computing_share(first, last, samples.hertz)


def _is_busy_beside(samples: Samples, wait: Wait) -> bool:
    """Return whether threads of a rank other than the main one compute. During a call of PyTorch, threads that Python
    does not know are ignored, since they spin for NCCL, except for autograd's."""
    last = samples.last
    thread = last.main_thread
    others = {each.id for each in last.work[1:]}
    known = [each.id for each in last.threads if each is not thread and each.frames]
    is_torchs = thread is not None and bool(thread.frames) and _TORCH.search(thread.frames[0].file) is not None
    if wait.call != BACKWARD and is_torchs and None not in known:
        others = {each.id for each in last.work[1:] if each.id in known or _is_autograds(each)}
    share = _share(samples, lambda each: each.id in others)
    return share is not None and share >= COMPUTING


def line_of(frame: Frame | None) -> tuple[str, int] | None:
    """Return the file and the line of a frame; None without a frame."""
    return (frame.file, frame.line) if frame is not None else None


def _expected(seconds: float) -> float:
    return 1 + seconds / POLL_TIME


def _woken(first: RankStacks, last: RankStacks) -> int:
    """Return how often the main thread of a process has begun to wait between two samples. 0 if the kernel does not
    report it."""
    return last.waits[0] - first.waits[1] if len(first.waits) == len(last.waits) == 2 else 0


def _activity_of_children(samples: Samples, wait: Wait) -> tuple[str, str] | None:
    """Return the activity, and the evidence in words, that the child processes of a rank show between two samples,
    since the rank may wait for them. None if they show none."""
    former = {each.pid: each for each in samples.former_children}
    for each in samples.children:
        known = former.get(each.pid)
        if known is None:
            return MOVES, "it has begun another process"
        share = computing_share(known, each, samples.hertz)
        if share is not None and share >= COMPUTING:
            return COMPUTES, f"a child ({each.command}) computes"
        if known.state != each.state and "T" in (known.state, each.state):
            return MOVES, "a child was stopped or continued just now"
        if wait.kind in FOR_CHILDREN and _child_goes_on(known, each):
            return WAKES, f"a child ({each.command}) continues"
    return None


def _child_goes_on(first: RankStacks, last: RankStacks) -> bool:
    seconds = last.time - first.time
    moved = first.moved is not None and last.moved is not None and last.moved - first.moved > QUIET_BYTES * seconds
    sleeps = "hrtimer_nanosleep" in (first.wait_channel, last.wait_channel)
    return (
        moved
        or (compare_samples(first, last) in (MOVED, ELSEWHERE))
        or (_woken(first, last) > _expected(seconds) and not sleeps)
    )
