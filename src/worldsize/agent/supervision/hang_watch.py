"""When the watch begins over a run that may hang while all its ranks are alive. The watching is in the wing `hangs`."""

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
"""Seconds after the ranks' start until the first look: a run that is over before pays nothing."""

_SHARE = 0.25
"""The same as a share of the limit; the shorter of the two counts."""


class HangWatch:
    """One node's part of the watch. No method raises. `part`: what is due by the clock."""

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
        """Have the watch begin later, if the job wants one. To be called when the ranks have been started."""
        if plan.watchdog_timeout:
            self._given = plan, paths, node
            self._first_at = time.monotonic() + min(_LONGEST_WAIT, _SHARE * plan.watchdog_timeout)

    def finish(self) -> None:
        """End the programs of the watch. To be called once, when the ranks have ended."""
        observer, self._observer, self._first_at = self._observer, None, None
        if observer is not None:
            self._guard(observer.close)

    def _deadline(self) -> float | None:
        return self._first_at if self._observer is None else self._observer.part.deadline()

    def _tick(self, now: float) -> None:
        if self._end.verdict is not None:  # what ranks say as they are ended is no sign of life
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
        """Call `act`; an error ends the watch, and not the run."""
        try:
            act()
        except Exception as error:  # noqa: BLE001  # no process is to be had, or no file of the agent's: the run goes on
            note(f"the watchdog has failed, and no longer detects hangs: {error}")
            self.finish()
