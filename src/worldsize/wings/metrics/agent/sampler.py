"""Samples, at growing intervals, what a node's ranks use. A thread does it: a file server or a driver that keeps it
waiting keeps the agent's loop from nothing.

Standard library only: travels inside agent.pyz (Python >= 3.8), and is loaded once ranks have run for a while.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping
from threading import Event, Thread

from worldsize.common.named_tuple import Any
from worldsize.plan.plan import NodePlan, Plan
from worldsize.plan.run_paths import RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.agent.supervision.rank_processes import RankProcesses
    from worldsize.wings.metrics.agent.gpus.helper import GpuHelper
    from worldsize.wings.metrics.agent.node_sampler import NodeSampler
    from worldsize.wings.metrics.agent.node_use import UseTotals

_FAREWELL = 0.5
"""Seconds that the agent waits for the last lines: a file server that hangs gets no more."""

_ANSWER = 0.2
"""Seconds that a reading of GPUs may take."""

_DRIVER = 20.0
"""Seconds from the ranks' start for which the header waits for a driver to tell which GPUs there are: samples are kept
meanwhile."""


class Sampler:
    """The sampling of one node. Nothing of it raises, and a full disk ends it quietly."""

    def __init__(
        self,
        plan: Plan,
        paths: RunPaths,
        node: NodePlan,
        ranks: RankProcesses,
        environ: Mapping[str, str],
        agents: int,
        elapsed: float,
    ) -> None:
        """`agents`: how many of the run's agents share this machine; `elapsed`: seconds since the ranks' start."""
        self._plan, self._paths, self._node = plan, paths, node
        self._ranks = ranks
        self._environ = environ
        self._began = time.monotonic() - elapsed
        self._agents = agents
        self._ending = Event()
        self._helper: GpuHelper | None = None
        self._thread = Thread(target=self._run, daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Have the last sample and the node's use written, and end what belongs to it. To be called once, when the
        ranks have ended."""
        self._ending.set()
        self._thread.join(_FAREWELL)
        helper = self._helper
        if helper is not None:
            helper.end(helper.pid in self._ranks.spared)

    def _run(self) -> None:
        """What the thread does. Signals are the main thread's."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._sample()
        except Exception:  # noqa: BLE001  # OSError: the disk is full, or the run removed; no run ends for its samples
            return

    def _sample(self) -> None:
        from worldsize.wings.metrics.agent.intervals import next_pause

        elapsed = time.monotonic() - self._began
        started = time.time() - elapsed
        writing = _Writing(self._plan, self._paths, self._node, self._ranks, self._agents, started)
        self._start_helper()
        spent = time.thread_time()  # the start, which comes once, makes no pause longer
        while True:
            ended = self._ending.is_set() or not self._ranks.running()
            elapsed = time.monotonic() - self._began
            gpus, cost = self._read_gpus(ended, elapsed, writing)
            writing.sample(gpus, elapsed, ended)
            if self._helper is not None:
                writing.mark_own(self._helper.computing)
            if ended:
                return writing.conclude()
            spent, before = time.thread_time(), spent
            self._ending.wait(next_pause(elapsed, cost + spent - before, self._agents, writing.written))

    def _start_helper(self) -> None:
        from worldsize.wings.metrics.agent.gpus.devices import has_gpus

        if self._plan.gpus != 0 and has_gpus(self._environ):
            from worldsize.wings.metrics.agent.gpus.helper import GpuHelper

            self._helper = GpuHelper(_gpu_environment(self._plan, self._environ))
            self._ranks.spared.add(self._helper.pid)

    def _read_gpus(self, ended: bool, elapsed: float, writing: _Writing) -> tuple[Any, float]:
        """A reading of the GPUs, and what it has cost; the header is written once it is known which there are."""
        found = self._helper.find(0.0 if ended else _ANSWER) if self._helper is not None else ()
        if found is not None or ended or elapsed > _DRIVER:
            writing.begin(found or ())
        if ended or self._helper is None:
            return (), 0.0
        return self._helper.read(_ANSWER)


def _gpu_environment(plan: Plan, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The agent's environment, which names the node's GPUs. Where it names none and each rank gets one of the first,
    these are the ones."""
    from worldsize.wings.metrics.agent.gpus.devices import VISIBLE

    if plan.gpus and plan.visible_devices and VISIBLE not in environ:
        return {**environ, VISIBLE: ",".join(map(str, range(plan.gpus)))}
    return environ


class _Writing:
    """The lines of one node's samples, and of the files that its ranks have open for TensorBoard."""

    def __init__(
        self, plan: Plan, paths: RunPaths, node: NodePlan, ranks: RankProcesses, agents: int, started: float
    ) -> None:
        """`started`: when the ranks were, in Unix seconds."""
        from worldsize.plan.launchers import launcher_facts
        from worldsize.registry import find_module
        from worldsize.wings.metrics.agent.line_file import LineFile
        from worldsize.wings.metrics.agent.network import NodeTraffic
        from worldsize.wings.metrics.agent.node_facts import has_kernels_pids, usable_memory
        from worldsize.wings.metrics.agent.node_sampler import NodeSampler
        from worldsize.wings.metrics.agent.node_use import UseTotals

        self._node = node
        self._ranks = ranks
        self._started = started
        self._traffic = NodeTraffic(is_shared=agents > 1)
        self._memory = usable_memory()
        found = [] if launcher_facts(plan.launcher).step_program else [each.rank for each in node.ranks]
        self._sampler: NodeSampler = NodeSampler(found, self._traffic)
        self._has_kernels_pids = has_kernels_pids()
        self._totals: UseTotals = UseTotals(self._memory)
        self._file = LineFile(paths.samples(node.node_rank))
        self._held = b""
        self._has_begun = False
        self._children = _children_time()
        events = find_module("wings.metrics.agent.tensorboard_files")
        self._events: Any = events.OpenEventFiles() if events is not None else None
        self._events_file = LineFile(paths.tensorboard_files(node.node_rank))

    @property
    def written(self) -> int:
        return self._file.written

    def begin(self, gpus: Any) -> None:
        """Write the header, and the samples that were held; once."""
        from worldsize.agent.posix.processes import host_name
        from worldsize.wings.metrics.agent.node_facts import usable_cores
        from worldsize.wings.metrics.agent.records import SAMPLES_VERSION, SamplesHeader, to_line

        if self._has_begun:
            return
        self._has_begun = True
        time, node_rank, interfaces = round(self._started, 3), self._node.node_rank, self._traffic.interfaces
        facts = usable_cores(), self._memory, tuple(gpus), interfaces
        held, self._held = self._held, b""
        self._file.append(to_line(SamplesHeader(SAMPLES_VERSION, time, host_name(), node_rank, *facts)) + held)

    def sample(self, gpus: Any, elapsed: float, ended: bool) -> None:
        """Take a sample and write it, or hold it as long as there is no header."""
        from worldsize.wings.metrics.agent.records import to_line

        sample = self._sampler.take(self._ranks, self._started + elapsed, gpus)
        self._totals.add(sample, elapsed)
        line = to_line(sample)
        if self._has_begun:
            self._file.append(line)
        else:
            self._held += line
        if self._events is not None and not ended:
            self._append_event_files()

    def mark_own(self, computing: Iterable[tuple[int, int]]) -> None:
        """Take in which processes compute on which GPUs: which of these are of a rank, as the last sample has found
        them."""
        if self._has_kernels_pids:
            pids = {pid for tree in self._sampler.trees.values() for pid in tree}
            self._totals.own.update(gpu for gpu, pid in computing if pid in pids)

    def _append_event_files(self) -> None:
        import json

        found = self._events.look(self._sampler.trees)
        lines = [json.dumps({"path": path, "rank": rank}, separators=(",", ":")) + "\n" for path, rank in found]
        self._events_file.append("".join(lines).encode("ascii"))

    def conclude(self) -> None:
        """Write what the node used in all."""
        from worldsize.wings.metrics.agent.records import to_line

        ended = max([exit.ended for exit in list(self._ranks.exits)], default=time.time())
        use = self._totals.use(max(0.0, ended - self._started), _children_time() - self._children)
        self._file.append(to_line(use))


def _children_time() -> float:
    """Seconds of CPU of all processes that this one has waited for."""
    times = os.times()
    return times.children_user + times.children_system
