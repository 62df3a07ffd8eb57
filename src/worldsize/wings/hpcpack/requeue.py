"""Puts a job back into the head node's queue."""

from __future__ import annotations

import time

from worldsize.errors import SubmitRejected
from worldsize.wings.hpcpack.head.client import REQUEUE_PATIENCE, HeadNodeClient
from worldsize.wings.hpcpack.head.wire import to_property_list
from worldsize.wings.hpcpack.render import ATTEMPT
from worldsize.wings.hpcpack.states import state_of

_EVERY = 0.3


def requeue(head: HeadNodeClient, job: int, attempt: int) -> None:
    """SubmitRejected in the head's words; SubmitAgain. Agents find out which attempt they begin; a variable of the job
    says so sooner than every file system, where the head takes it.

    A job whose ranks have ended may still be ending, in which the head requeues none: that is waited for, 30 s at most.
    """
    try:
        head.post(f"/jobs/{job}/envVariables", to_property_list({ATTEMPT: str(attempt)}))
    except SubmitRejected:
        pass
    deadline = time.monotonic() + REQUEUE_PATIENCE
    ending = True
    while True:
        try:
            head.post(f"/jobs/{job}/requeue")
            return
        except SubmitRejected:
            if not ending or time.monotonic() > deadline:
                raise
        ending = _is_ending(head, job)
        if ending:
            time.sleep(_EVERY)


def _is_ending(head: HeadNodeClient, job: int) -> bool:
    return state_of(head.read_job(job).get("state", "")).ending
