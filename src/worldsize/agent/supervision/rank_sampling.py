"""When a node's agent begins to sample what its ranks use, and ends it; the sampling itself is a wing's."""

from __future__ import annotations

import time
from collections.abc import Mapping

from worldsize.agent.outcome.node_record import note
from worldsize.agent.supervision.deadlines import Part
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import NodePlan, Plan
from worldsize.plan.run_paths import RunPaths

FIRST_SAMPLE, FIRST_SAMPLE_PER_AGENT = 2.0, 0.5
"""Seconds after the ranks' start until what they use is sampled for the first time: at least, and for each agent that
shares the machine. A run that is over before pays nothing."""

_SAMPLER = "wings.metrics.agent.sampler"


class RankSampling:
    """The sampling of what a node's ranks use, by a wing, which is loaded when the first sample is due. Nothing of it
    raises. `part`: what is due by the clock."""

    def __init__(self, ranks: RankProcesses) -> None:
        self.part = Part(self._deadline, self._begin)
        self._ranks = ranks
        self._given: tuple[Any, ...] = ()
        self._started = 0.0
        self._first_at: float | None = None
        self._sampler: Any = None

    def plan_first(self, plan: Plan, paths: RunPaths, node: NodePlan, environ: Mapping[str, str], agents: int) -> None:
        """Have sampling begin later, where the ranks still live then. `agents`: how many of the run's agents share this
        machine. To be called when the ranks have been started."""
        self._given = plan, paths, node, self._ranks, environ, agents
        self._started = time.monotonic()
        self._first_at = self._started + max(FIRST_SAMPLE, FIRST_SAMPLE_PER_AGENT * agents)

    def _deadline(self) -> float | None:
        return self._first_at

    def _begin(self, now: float) -> None:
        if self._first_at is None or now < self._first_at:
            return
        self._first_at = None
        if not self._ranks:
            return
        try:
            from worldsize.registry import load_module  # many runs are over by now

            self._sampler = load_module(_SAMPLER, "sampling").Sampler(*self._given, now - self._started)
        except Exception as error:  # noqa: BLE001  # no thread is to be had, or no file of the agent's: the run goes on
            note(f"what ranks use is not sampled: {error}")

    def finish(self) -> None:
        """Have the last sample written. To be called once, when the ranks have ended."""
        if self._sampler is not None:
            self._sampler.finish()
