"""The watch over a run that may hang while all its ranks are alive. This module decides when the watch begins; the wing
`hangs` performs it."""

from __future__ import annotations

import time

from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.outcome import verdict
from worldsize.agent.outcome.node_record import NodeRecorder, note
from worldsize.agent.outcome.verdict import failure_verdict
from worldsize.agent.supervision.deadlines import Part
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.agent.supervision.run_end import RunEnd
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Reason

_OBSERVER = "wings.hangs.agent.observer"
_LONGEST_WAIT = 5.0
"""Maximum number of seconds between the ranks' start and the first check. A run that ends before has no cost."""

_SHARE = 0.25
"""Maximum wait until the first check, as a share of the watchdog timeout. The shorter of the two waits counts."""


class HangWatch:
    """The watch on one node. No method raises. `part` is the part that acts by the clock."""

    def __init__(self, ranks: RankProcesses, peers: Peers, recorder: NodeRecorder, end: RunEnd) -> None:
        self.part = Part(self._deadline, self._tick)
        self._ranks = ranks
        self._peers = peers
        self._recorder = recorder
        self._end = end
        self._given: tuple[Any, ...] = ()
        self._first_at: float | None = None
        self._observer: Any = None

    def plan_first(self, plan: Plan, paths: RunPaths, node: int) -> None:
        """Plan the beginning of the watch for hangs on this node, if the job has a watchdog timeout. Call this when the
        ranks have been started."""
        if plan.watchdog_timeout:
            self._given = plan, paths, node
            self._first_at = time.monotonic() + min(_LONGEST_WAIT, _SHARE * plan.watchdog_timeout)

    def finish(self) -> None:
        """Close the observer of the watch for hangs, which terminates its programs. Call this once, when the ranks have
        ended."""
        observer, self._observer, self._first_at = self._observer, None, None
        if observer is not None:
            self._guard(observer.close)

    def _deadline(self) -> float | None:
        return self._first_at if self._observer is None else self._observer.part.deadline()

    def _tick(self, now: float) -> None:
        if self._end.verdict is not None:  # output of ranks that are being ended is no sign of life
            return self.finish()
        if self._observer is not None:
            return self._guard(lambda: self._observer.part.tick(now))
        if self._first_at is not None and now >= self._first_at:
            self._first_at = None
            self._guard(lambda: self._begin(now))

    def _begin(self, now: float) -> None:
        from worldsize.registry import find_module  # many runs are over by now

        wing = find_module(_OBSERVER)
        if wing is not None:
            plan, paths, node = self._given
            shared = self._ranks, self._peers, self._recorder
            self._observer = wing.HangObserver(plan, paths, node, *shared, self._end_run, now)

    def _end_run(self, why: str) -> None:
        self._end.decide(failure_verdict(verdict.HANG, Reason.HANG, why, code=verdict.TIMEOUT_CODE), time.monotonic())

    def _guard(self, act: Any) -> None:
        """Call `act`, an action of the watch for hangs. If it raises an exception, log it and end the watch, but not
        the run."""
        try:
            act()
        except Exception as error:  # noqa: BLE001  # no process, or no file of the agent: the run continues
            note(f"the watchdog has failed, and no longer detects hangs: {error}")
            self.finish()
