"""What a node's agent has observed beside its ranks, once they have run for a moment: what they use, and what the node
is made of. When that begins and ends is decided here; the observing itself is wings'."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence

from worldsize.agent.outcome.node_record import NodeRecorder, note
from worldsize.agent.posix import processes
from worldsize.agent.supervision.deadlines import Part
from worldsize.agent.supervision.log_times import LogTimes
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.agent.supervision.rank_services import RankServices
from worldsize.common.named_tuple import Any
from worldsize.plan.plan import NodePlan, Plan
from worldsize.plan.run_paths import RunPaths

FIRST_SAMPLE, FIRST_SAMPLE_PER_AGENT = 2.0, 0.5
"""Seconds after the ranks' start until what they use is sampled for the first time: at least, and for each agent that
shares the machine. A run that is over before pays nothing."""

DELAY = 0.5
"""Seconds after the ranks' start until the node is looked at: a run that is over before pays nothing."""

_SAMPLER, _FACTS = "wings.metrics.agent.sampler", "wings.facts.agent.helper"


class RankObservers:
    """The observers of one node's ranks, and the job's services. Nothing of them raises. `parts`: what is due by the
    clock."""

    def __init__(self, ranks: RankProcesses, recorder: NodeRecorder) -> None:
        self._sampling, self._facts = RankSampling(ranks), NodeFactsHelper(ranks)
        self._services, self._log_times = RankServices(ranks, recorder), LogTimes()
        self.parts = (self._sampling.part, self._facts.part, self._services.part, self._log_times.part)

    def plan(
        self, plan: Plan, paths: RunPaths, node: NodePlan, environ: Mapping[str, str], agents: int, local: bool
    ) -> None:
        """Have them begin later. `agents`: how many of the run's agents share this machine; `local`: all of them do,
        and the first one tells for all what the nodes are made of. To be called when the ranks have been started."""
        self._log_times.plan_first(plan, paths, node)
        if plan.metrics:
            self._sampling.plan_first(plan, paths, node, environ, agents)
        if plan.services or plan.shm_bytes:
            self._services.start(plan, paths, node, local)
        told = plan.agents if local else (node,)
        if told[0].node_rank == node.node_rank:
            self._facts.plan_start(plan, paths, [each.node_rank for each in told], environ)

    def finish(self) -> None:
        """Have the last sample written, and end what belongs to them. To be called once, when the ranks have ended."""
        self._log_times.finish()
        self._services.finish()
        self._sampling.finish()
        self._facts.finish()


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
            note(f"the ranks' resource use is not sampled: {error}")

    def finish(self) -> None:
        """Have the last sample written. To be called once, when the ranks have ended."""
        if self._sampler is not None:
            self._sampler.finish()


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

            helper = find_module(_FACTS)
            if helper is not None:
                plan, paths, nodes, environ = self._given
                self._pid = helper.start_helper(plan, paths, nodes, running[0], environ)
                self._ranks.spared.add(self._pid)
        except Exception as error:  # noqa: BLE001  # no process is to be had, or no file of the agent's: the run goes on
            note(f"the node's hardware is not recorded: {error}")

    def finish(self) -> None:
        """End the process, if it still lives, without waiting: what it asks may hang. To be called once, when the ranks
        have ended."""
        if self._pid in self._ranks.spared:
            processes.signal_process(self._pid, signal.SIGKILL)
