"""The end of a step: when its tasks are terminated, and the exit code of srun.

Pure: methods receive the time, in seconds of one monotonic clock.
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
"""The maximum pause in seconds. A selector waits for at most 24 days, and a step may have a longer time limit."""

_KILLED, _TERMINATED = 128 + signal.SIGKILL, 128 + signal.SIGTERM


def step_end(srun: SrunOptions, grace: float, now: float) -> StepEnd:
    """Return the StepEnd of the step that an srun with the options `srun` starts. All of its tasks start at `now`.
    `grace` is the time in seconds between TERM and KILL."""
    wait = float(parse_digits(srun.options.get("wait")) or 0)
    return StepEnd(grace, wait, known_limit_seconds(srun.given.get("time")), srun.flag("kill-on-bad-exit"), now)


class StepEnd:
    """The end of one step, all of whose tasks start at `now`.

    All times are in seconds. `grace` is the time between TERM and KILL. `wait` is how long the other tasks may run once
    the first has ended (0: forever). `limit` is the time limit. `kill_on_failure` is whether a failed task terminates
    the others. `code` is the exit code of the first request to end the step; None before that.
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
        """Record that a task of the step could not be started. `code` is the exit code of srun for this error."""
        self._codes.append(code)

    def record_ended(self, code: int, failure: Failure | None, now: float) -> None:
        """Record that a task of the step has ended with the exit code `code`, and with its `failure` if the code is not
        0. An end after `request` does not count, because the step has terminated the task."""
        if self.code is not None:
            return
        self._codes.append(code)
        if self._kill_on_failure and failure is not None and self._first_failure.consider([failure], now) is not None:
            self._due = now
        if self._wait and self._due is None:
            self._due = now + self._wait

    def request(self, code: int, now: float) -> bool:
        """Request the end of the step with exit code `code`. Return whether this is the first request, so that TERM
        must be sent now."""
        if self.code is not None:
            return False
        self.code = code
        self._termination.request(now, self._grace)
        return True

    def request_kill(self, now: float) -> None:
        """Make the KILL of the step's remaining processes due at `now`, without a further grace period."""
        self._termination.request(now, 0.0)

    def request_end_of_leftovers(self, now: float) -> bool:
        """Request the end of the processes that ended tasks of the step have left, with a short grace period at most.
        Return whether TERM must be sent to them now; False if an end was requested before."""
        if self._termination.kill_at is not None:
            return False
        self._termination.request(now, min(self._grace, LEFTOVER_GRACE))
        return True

    def code_due(self, now: float) -> int | None:
        """Return the exit code to end the step with, if the failure or the end of one of its tasks is now a reason to
        terminate the other tasks; otherwise None."""
        is_due = self._due is not None and now >= self._due
        return _KILLED if is_due or self._first_failure.overdue(now) is not None else None

    def code_of_time_limit(self, now: float) -> int | None:
        """Return the exit code to end the step with, if the time limit of the step has passed; otherwise None."""
        return _TERMINATED if self._time_limit is not None and now >= self._time_limit else None

    def is_overdue(self, now: float) -> bool:
        """Return whether all remaining processes of the step must be killed now, because the grace period after TERM
        has passed."""
        return self._termination.is_overdue(now)

    def pause(self, now: float, has_tasks: bool) -> float | None:
        """Return the number of seconds that srun may sleep until the step's next time-based action (a termination, a
        decision on a failure, the time limit) is due; None if there is none. `has_tasks` is whether tasks are still
        running."""
        if self._termination.kill_at is not None or not has_tasks:
            return _BUSY
        dues = (self._due, self._first_failure.decide_at, self._time_limit)
        moments = [moment for moment in dues if moment is not None]
        return max(0.0, min(*moments, now + _LONGEST_PAUSE) - now) if moments else None

    def exit_code(self) -> int:
        """Return the exit code of srun for the step: the highest exit code of its tasks, or `code` if no task had
        failed before the end was requested."""
        if self.code is not None and not any(self._codes):
            return self.code
        return max(self._codes, default=0)
