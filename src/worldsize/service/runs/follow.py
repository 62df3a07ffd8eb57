"""Following a run to its end, while its output is shown: the compute is asked now and then, and nobody waits for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from worldsize.service.runs import status as run_status
from worldsize.state.records import RunState, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.service.runs.run import Run

_SHORTEST_PAUSE = 0.001
_LONGEST_PAUSE = 0.1
_QUIET_SHARE = 0.02
_LOOK_EVERY = 0.25
_NOTICED_WITHIN = 3.0
_REPORT_AFTER = 5.0
_REPORTED_STATES = (RunState.QUEUED, RunState.STARTING, RunState.RUNNING)


class _StatusKnown(Exception):
    """`status` is the answer, whatever the compute may still say."""

    def __init__(self, status: Status) -> None:
        super().__init__(status)
        self.status = status


class RunFollower:
    """`show` returns whether something was new. `follow_to_end` gives up after `timeout` seconds. `tell` gets a status
    with a message, each message once: what a run waits for, or why its compute cannot be asked."""

    def __init__(
        self, run: Run, show: Callable[[], bool], timeout: float | None, tell: Callable[[Status], None] | None = None
    ) -> None:
        self._run = run
        self._show = show
        self._tell = tell
        self._told: set[str] = set()
        self._began = time.monotonic()
        self._timeout = timeout
        self._status: Status | None = None

    def follow_to_end(self) -> Status:
        """Also past a compute that does not answer: the nodes' records tell the end by themselves."""
        looked = heard = changed = self._began
        status = self._refresh_status()
        due = _LOOK_EVERY
        while not status.final:
            new = self._show()
            now = time.monotonic()
            if self._is_late(now):
                break
            heard = now if new else heard
            time.sleep(min(max((now - heard) * _QUIET_SHARE, _SHORTEST_PAUSE), _LONGEST_PAUSE))
            if now - looked > (_LOOK_EVERY if self._is_near_end() else due) or os.path.exists(self._run.paths.result):
                before, looked, status = status, now, self._refresh_status()
                changed = changed if status.state == before.state else now
                due = self._pause(now - changed, status)
                self._report_message(before, status)
        if status.final and not os.path.isdir(self._run.paths.root) and self._run.is_own:
            self._end_deleted_run()
        return status

    def _report_message(self, before: Status, status: Status) -> None:
        """Not of what passes at once."""
        words = status.message if status.state in _REPORTED_STATES and status.message == before.message else ""
        if self._tell and words and words not in self._told and time.monotonic() - self._began >= _REPORT_AFTER:
            self._told.add(words)
            self._tell(status)

    def _is_late(self, now: float) -> bool:
        return self._timeout is not None and now - self._began >= self._timeout

    def _refresh_status(self) -> Status:
        try:
            self._status = self._run.look(idle=self._check_while_waiting)
        except _StatusKnown as enough:
            self._status = enough.status
        return self._status

    def _check_while_waiting(self) -> None:
        run = self._run
        self._show()
        told = run_status.status_from_records(run.paths, run.plan, run.native())
        if told is not None:
            raise _StatusKnown(told)
        if self._status is not None and self._is_late(time.monotonic()):
            raise _StatusKnown(self._status)

    def _is_near_end(self) -> bool:
        """Whether the head's agent has written its last, or a cancel is under way: the end is near."""
        paths = self._run.paths
        return os.path.exists(paths.exit_record(0)) or os.path.exists(paths.cancel)

    def _pause(self, age: float, status: Status) -> float:
        """How long the compute is left in peace."""
        if self._run.native() is None:
            return _LOOK_EVERY
        return self._run.compute.pause(age, queued=status.state == RunState.QUEUED)

    def _end_deleted_run(self) -> None:
        """A run that we knew before its directory was deleted: its agents notice that, and end it with its grace."""
        run = self._run
        handle = run.native()
        if handle is None:
            return
        deadline = time.monotonic() + run.plan.grace + _NOTICED_WITHIN
        while run.compute.observe([handle])[0].phase == "running" and time.monotonic() < deadline:
            time.sleep(_LONGEST_PAUSE)
        run.end_remains()
