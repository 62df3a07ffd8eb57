"""Submission to a scheduler exactly once, even over an unreliable connection to it. Computes of other packages use it,
too."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from worldsize.errors import SubmitAgain

PATIENCE = 120.0
"""Maximum number of seconds that a scheduler may be away. A restart, or the change to its backup, takes less."""

_LOOKS = 2
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0


def submit_once(create: Callable[[], str], find: Callable[[], Sequence[str]]) -> str:
    """Call `create`, which creates a native job and returns its id, and return the id. If `create` raises SubmitAgain,
    its answer may have been lost. The job is then looked up with `find`, which returns the ids of the jobs with the
    run's name, the newest first. It is looked up twice before `create` is called again, since the scheduler may still
    be creating it.

    Raise SubmitAgain if no job was created within `PATIENCE` seconds. Other errors of both functions are raised as they
    are, such as SubmitRejected if the submission is rejected for good.
    """
    deadline, pause = time.monotonic() + PATIENCE, _FIRST_PAUSE
    looks = 0
    while True:
        try:
            if looks == 0:
                looks = _LOOKS
                return create()
            found = find()
            looks -= 1
            if found:
                return found[0]
        except SubmitAgain:
            if time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
