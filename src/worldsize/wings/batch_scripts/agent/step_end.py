"""When the tasks of a step are ended, and which code srun ends with.

Pure: methods take the time, in seconds of one monotonic clock.
"""

from __future__ import annotations

import signal

from worldsize.common.numbers import parse_digits
from worldsize.common.termination import LEFTOVER_GRACE, Termination
from worldsize.plan.time_limit import known_limit_seconds
from worldsize.state.first_failure import FirstFailure
from worldsize.state.records import Failure
from worldsize.wings.batch_scripts.agent.srun_options import SrunOptions

_BUSY = 0.02
_LONGEST_PAUSE = 3600.0
"""Seconds. A selector waits for at most 24 days, and a step may have a longer time limit."""

_KILLED, _TERMINATED = 128 + signal.SIGKILL, 128 + signal.SIGTERM


def step_end(srun: SrunOptions, grace: float, now: float) -> StepEnd:
    """Return the end of a step of an srun with these options, all of whose tasks start at `now`."""
    wait = float(parse_digits(srun.options.get("wait")) or 0)
    return StepEnd(grace, wait, known_limit_seconds(srun.given.get("time")), srun.flag("kill-on-bad-exit"), now)


class StepEnd:
    """The end of one step, all of whose tasks start at `now`.

    Times are seconds: the `grace` between TERM and KILL, how long the other tasks may `wait` once the first has ended
    (0: for ever), the time `limit`. `kill_on_failure`: a task that fails ends the others. `code`: what the step was
    first requested to end with; None before that.
    """

    def __init__(self, grace: float, wait: float, limit: float | None, kill_on_failure: bool, now: float) -> None:
        self.code: int | None = None
        self._grace = grace
        self._wait = wait
        self._kill_on_failure = kill_on_failure
        self._codes: list[int] = []
        self._first_failure = FirstFailure()
        self._due: float | None = None
        self._time_limit = None if limit is None else now + limit
        self._termination = Termination()

    def record_unstarted(self, code: int) -> None:
        """Record that a task could not be started; `code`: what srun ends with for it."""
        self._codes.append(code)

    def record_ended(self, code: int, failure: Failure | None, now: float) -> None:
        """Record that a task has ended, with `failure` where `code` is not 0. After `request` it does not count: the
        task was ended."""
        if self.code is not None:
            return
        self._codes.append(code)
        if self._kill_on_failure and failure is not None and self._first_failure.consider([failure], now) is not None:
            self._due = now
        if self._wait and self._due is None:
            self._due = now + self._wait

    def request(self, code: int, now: float) -> bool:
        """Ask for the end of the step, with `code`. Whether it is the first request, so that TERM is to be sent now."""
        if self.code is not None:
            return False
        self.code = code
        self._termination.request(now, self._grace)
        return True

    def request_kill(self, now: float) -> None:
        """Ask for KILL now, without any further grace."""
        self._termination.request(now, 0.0)

    def request_end_of_leftovers(self, now: float) -> bool:
        """Ask for the end of what the tasks have left, with a short grace, or what is left of the step's. Whether TERM
        is to be sent to it now."""
        if self._termination.kill_at is not None:
            return False
        self._termination.request(now, min(self._grace, LEFTOVER_GRACE))
        return True

    def code_due(self, now: float) -> int | None:
        """Return the code to end the step with, once a task's failure or end is a reason to end the others; else
        None."""
        is_due = self._due is not None and now >= self._due
        return _KILLED if is_due or self._first_failure.overdue(now) is not None else None

    def code_of_time_limit(self, now: float) -> int | None:
        """Return the code to end the step with, once its time limit is over; else None."""
        return _TERMINATED if self._time_limit is not None and now >= self._time_limit else None

    def is_overdue(self, now: float) -> bool:
        """Return whether everything that is left is to be killed."""
        return self._termination.is_overdue(now)

    def pause(self, now: float, has_tasks: bool) -> float | None:
        """Seconds until something is due by the clock; None where nothing is."""
        if self._termination.kill_at is not None or not has_tasks:
            return _BUSY
        dues = (self._due, self._first_failure.decide_at, self._time_limit)
        moments = [moment for moment in dues if moment is not None]
        return max(0.0, min(*moments, now + _LONGEST_PAUSE) - now) if moments else None

    def exit_code(self) -> int:
        """srun's exit code: the highest of the tasks', or `code` where none had failed before it was requested."""
        if self.code is not None and not any(self._codes):
            return self.code
        return max(self._codes, default=0)
