"""When a node's agent has found out what the node is made of, and for which nodes; the finding itself is a wing's."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence

from worldsize.agent.outcome.node_record import note
from worldsize.agent.posix import processes
from worldsize.agent.supervision.deadlines import Part
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths

DELAY = 0.5
"""Seconds after the ranks' start until the process is started: a run that is over before pays nothing."""

_HELPER = "wings.facts.agent.helper"


class NodeFactsHelper:
    """The process that writes what a node is made of, once in an attempt, while ranks run. Nothing of it raises, and
    nobody waits for it. `part`: what is due by the clock."""

    def __init__(self, ranks: RankProcesses) -> None:
        self.part = Part(self._deadline, self._begin)
        self._ranks = ranks
        self._given: tuple[Any, ...] = ()
        self._start_at: float | None = None
        self._pid = 0

    def plan_start(self, plan: Plan, paths: RunPaths, nodes: Sequence[int], environ: Mapping[str, str]) -> None:
        """Have it start later, where ranks still live then. `nodes`: those that are this machine, and whose agents
        leave it to this one. To be called when the ranks have been started."""
        self._given = plan, paths, nodes, environ
        self._start_at = time.monotonic() + DELAY

    def _deadline(self) -> float | None:
        return self._start_at

    def _begin(self, now: float) -> None:
        if self._start_at is None or now < self._start_at:
            return
        self._start_at = None
        running = list(self._ranks.running().values())
        if not running:
            return
        try:
            from worldsize.registry import find_module  # many runs are over by now

            helper = find_module(_HELPER)
            if helper is not None:
                plan, paths, nodes, environ = self._given
                self._pid = helper.start_helper(plan, paths, nodes, running[0], environ)
                self._ranks.spared.add(self._pid)
        except Exception as error:  # noqa: BLE001  # no process is to be had, or no file of the agent's: the run goes on
            note(f"what the node is made of is not recorded: {error}")

    def finish(self) -> None:
        """End the process, if it still lives, without waiting: what it asks may hang. To be called once, when the ranks
        have ended."""
        if self._pid in self._ranks.spared:
            processes.signal_process(self._pid, signal.SIGKILL)
