"""A job put back into the head node's queue.

Several runs in one submission: HPC Pack has no arrays, so each is a job, which waits for its parents. Pure.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from worldsize.compute.hpcpack.client import Head
from worldsize.compute.hpcpack.render import ATTEMPT
from worldsize.compute.hpcpack.states import state_of
from worldsize.compute.hpcpack.wire import listed, properties
from worldsize.errors import SubmitRejected

_PATIENCE = 30.0
_EVERY = 0.3


def requeue(head: Head, job: int, attempt: int) -> None:
    """SubmitRejected in the head's words; SubmitAgain. Agents find out which attempt they begin; a variable of the job
    says so sooner than every file system, where the head takes it.

    A job whose ranks have ended may still be ending, in which the head requeues none: that is waited for, 30 s at most.
    """
    try:
        head.post("/jobs/%d/envVariables" % job, listed({ATTEMPT: str(attempt)}))
    except SubmitRejected:
        pass
    deadline = time.monotonic() + _PATIENCE
    ending = True
    while True:
        try:
            head.post("/jobs/%d/requeue" % job)
            return
        except SubmitRejected:
            if not ending or time.monotonic() > deadline:
                raise
        ending = _is_ending(head, job)
        if ending:
            time.sleep(_EVERY)


def _is_ending(head: Head, job: int) -> bool:
    return state_of(properties(head.get("/jobs/%d" % job)).get("state", "")).ending


_MOST_PARENTS = 100


def parents(jobs: Sequence[int], at_once: int | None) -> tuple[int, ...]:
    """Those of `jobs`, the elements before it, that have to end before the next element may start.

    All but the last `at_once - 1`, and not only the one that is `at_once` before it: when a waiting one is cancelled,
    its own parents still run. Of long arrays the last hundred stand for all.
    """
    if not at_once:
        return ()
    return tuple(jobs[: len(jobs) - at_once + 1][-_MOST_PARENTS:]) if len(jobs) >= at_once else ()
