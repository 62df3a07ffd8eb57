"""Observation of a node and its ranks, once the ranks have run for a moment: the resources that the ranks use, and the
hardware and software of the node. This module decides when the observation begins and ends; wings perform it."""

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
"""Seconds after the ranks' start until the first sample: the minimum, and the seconds for each agent that shares the
machine. A run that ends before has no cost."""

DELAY = 0.5
"""Seconds after the ranks' start until the node facts are recorded. A run that ends before has no cost."""

_SAMPLER, _FACTS = "wings.metrics.agent.sampler", "wings.facts.agent.helper"


class RankObservers:
    """The observers of one node's ranks, and the job's services. No method raises. `parts` are the parts that act by
    the clock."""

    def __init__(self, ranks: RankProcesses, recorder: NodeRecorder) -> None:
        self._sampling, self._facts = RankSampling(ranks), NodeFactsHelper(ranks)
        self._services, self._log_times = RankServices(ranks, recorder), LogTimes()
        self.parts = (self._sampling.part, self._facts.part, self._services.part, self._log_times.part)

    def plan(
        self, plan: Plan, paths: RunPaths, node: NodePlan, environ: Mapping[str, str], agents: int, local: bool
    ) -> None:
        """Plan the beginning of the observations on this node: log times, samples of the ranks' resource use, the job's
        services and the node facts. `agents` is the number of the run's agents that share this machine. `local` means
        that all of them do; then the first agent records the node facts for all nodes. Call this when the ranks have
        been started."""
        self._log_times.plan_first(plan, paths, node)
        if plan.metrics:
            self._sampling.plan_first(plan, paths, node, environ, agents)
        if plan.services or plan.shm_bytes:
            self._services.start(plan, paths, node, local)
        told = plan.agents if local else (node,)
        if told[0].node_rank == node.node_rank:
            self._facts.plan_start(plan, paths, [each.node_rank for each in told], environ)

    def finish(self) -> None:
        """Write the last entries of the log times and the last sample of resource use, and stop the job's services and
        the helper process. Call this once, when the ranks have ended."""
        self._log_times.finish()
        self._services.finish()
        self._sampling.finish()
        self._facts.finish()


class RankSampling:
    """The sampling of the resources that a node's ranks use, by a wing that is loaded when the first sample is due. No
    method raises. `part` is the part that acts by the clock."""

    def __init__(self, ranks: RankProcesses) -> None:
        self.part = Part(self._deadline, self._begin)
        self._ranks = ranks
        self._given: tuple[Any, ...] = ()
        self._started = 0.0
        self._first_at: float | None = None
        self._sampler: Any = None

    def plan_first(self, plan: Plan, paths: RunPaths, node: NodePlan, environ: Mapping[str, str], agents: int) -> None:
        """Plan the first sample of the resources that this node's ranks use, for the case that the ranks still live
        then. `agents` is the number of the run's agents that share this machine. Call this when the ranks have been
        started."""
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
        except Exception as error:  # noqa: BLE001  # no thread, or no file of the agent: the run continues
            note(f"the ranks' resource use is not sampled: {error}")

    def finish(self) -> None:
        """Write the last sample of the ranks' resource use. Call this once, when the ranks have ended."""
        if self._sampler is not None:
            self._sampler.finish()


class NodeFactsHelper:
    """The process that records the hardware and software of a node, once in an attempt, while ranks run. No method
    raises, and the agent does not wait for the process. `part` is the part that acts by the clock."""

    def __init__(self, ranks: RankProcesses) -> None:
        self.part = Part(self._deadline, self._begin)
        self._ranks = ranks
        self._given: tuple[Any, ...] = ()
        self._start_at: float | None = None
        self._pid = 0

    def plan_start(self, plan: Plan, paths: RunPaths, nodes: Sequence[int], environ: Mapping[str, str]) -> None:
        """Plan the start of the process that records the hardware and software of a node, for the case that ranks still
        live then. `nodes` are the nodes on this machine that the process records, including those whose agents leave it
        to this one. Call this when the ranks have been started."""
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
        except Exception as error:  # noqa: BLE001  # no process, or no file of the agent: the run continues
            note(f"the node's hardware is not recorded: {error}")

    def finish(self) -> None:
        """Kill the process that records the node's hardware and software, if it still lives, without waiting for it,
        because the programs that it queries may hang. Call this once, when the ranks have ended."""
        if self._pid in self._ranks.spared:
            processes.signal_process(self._pid, signal.SIGKILL)
