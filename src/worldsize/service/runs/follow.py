"""Following of a run, or an array, to its end while its output is shown. The compute is queried now and then, and its
answer delays neither the output nor the detection of the end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from worldsize.common.debug_notes import note_decision
from worldsize.state.records import RunState, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.service.runs.submitted import SubmittedRuns

_SHORTEST_PAUSE = 0.001
_LONGEST_PAUSE = 0.1
_QUIET_SHARE = 0.02
_LOOK_EVERY = 0.25
_REPORT_AFTER = 5.0
_REPORTED_STATES = (RunState.QUEUED, RunState.STARTING, RunState.RUNNING)


class _StatusKnown(Exception):
    """Internal signal that ends a query early: `statuses` are the result, and the answer of the compute is not
    needed."""

    def __init__(self, statuses: list[Status]) -> None:
        super().__init__(statuses)
        self.statuses = statuses


class Follower:
    """The loop that follows a run or an array until it has ended.

    `show` shows new output and returns whether there was any. `follow_to_end` returns after `timeout` seconds at the
    latest. `tell` is called with a status that has a message, once for each message: what the run waits for, or why its
    compute cannot be queried. `seen` is called with the statuses of each look; if it returns a true value, following
    ends.
    """

    def __init__(
        self,
        runs: SubmittedRuns,
        show: Callable[[], bool],
        timeout: float | None,
        tell: Callable[[Status], None] | None,
        seen: Callable[[list[Status]], object],
    ) -> None:
        self._runs = runs
        self._show = show
        self._tell = tell
        self._seen = seen
        self._told: set[str] = set()
        self._began = time.monotonic()
        self._timeout = timeout
        self._statuses: list[Status] = []
        self._took = 0.0
        self._enough = False

    def follow_to_end(self) -> list[Status]:
        """Follow the runs until all have ended, the timeout is over, or `seen` has returned a true value; return the
        last status of each run. The end is also found while the compute does not answer, since the records of the nodes
        show it by themselves."""
        looked = heard = changed = self._began
        statuses = self._look()
        due = self._runs.pause(statuses, None, self._took)
        shortest = min(_SHORTEST_PAUSE * len(statuses), _LONGEST_PAUSE)
        while not self._is_over(statuses):
            new = self._show()
            now = time.monotonic()
            if self._is_late(now):
                break
            heard = now if new else heard
            time.sleep(min(max((now - heard) * _QUIET_SHARE, shortest), _LONGEST_PAUSE))
            if now - looked > (_LOOK_EVERY if self._runs.is_near_end() else due) or self._has_result():
                before, looked, statuses = statuses, now, self._look()
                if _states(statuses) != _states(before):
                    changed = now
                    note_decision(f"state: {', '.join(_states(statuses))}")
                due = self._runs.pause(statuses, now - changed, self._took)
                self._report_message(before, statuses)
        if all(status.final for status in statuses) and self._runs.is_own and not os.path.isdir(self._runs.directory):
            self._runs.end_after_deletion()
        return statuses

    def _is_over(self, statuses: list[Status]) -> bool:
        return self._enough or all(status.final for status in statuses)

    def _has_result(self) -> bool:
        return os.path.exists(self._runs.paths.result)

    def _report_message(self, before: list[Status], statuses: list[Status]) -> None:
        """Pass the run's status to the callback `tell` if its message was the same in the last two looks and the first
        `_REPORT_AFTER` seconds are over. Each message is reported once; short-lived messages are not reported."""
        if self._tell is None:
            return
        former, status = self._runs.overall(before), self._runs.overall(statuses)
        words = status.message if status.state in _REPORTED_STATES and status.message == former.message else ""
        if words and words not in self._told and time.monotonic() - self._began >= _REPORT_AFTER:
            self._told.add(words)
            self._tell(status)

    def _is_late(self, now: float) -> bool:
        return self._timeout is not None and now - self._began >= self._timeout

    def _look(self) -> list[Status]:
        before = time.monotonic()
        try:
            self._statuses = self._runs.statuses(self._check_while_waiting)
        except _StatusKnown as enough:
            self._statuses = enough.statuses
        self._took = time.monotonic() - before
        self._enough = bool(self._seen(self._statuses))
        return self._statuses

    def _check_while_waiting(self) -> None:
        self._show()
        told = self._runs.recorded_statuses()
        if told is not None:
            raise _StatusKnown(told)
        if self._statuses and self._is_late(time.monotonic()):
            raise _StatusKnown(self._statuses)


def _states(statuses: list[Status]) -> list[str]:
    return [status.state for status in statuses]
