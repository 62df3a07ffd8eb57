"""The sampler of what a node's ranks use, at growing intervals. It runs in a thread, so that a file server or a driver
that blocks does not block the agent's loop.

Standard library only: travels inside agent.pyz (Python >= 3.8), and is loaded once ranks have run for a while.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from threading import Event, Thread

from worldsize.agent.outcome.node_record import note
from worldsize.plan.plan import NodePlan, Plan
from worldsize.plan.run_paths import RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.agent.supervision.rank_processes import RankProcesses
    from worldsize.wings.metrics.agent.gpus.helper import GpuHelper
    from worldsize.wings.metrics.agent.records import GpuSample
    from worldsize.wings.metrics.agent.sample_writer import SampleWriter

_FAREWELL = 0.5
"""Seconds that the agent waits for the last lines, even if a file server hangs."""

_ANSWER = 0.2
"""Seconds that a reading of GPUs may take."""

_DRIVER = 20.0
"""Seconds from the ranks' start for which the header waits for a driver to report its GPUs. Samples are kept
meanwhile."""


class Sampler:
    """The sampling of one node. It never raises, and a full disk ends it silently."""

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
        """Start the thread that samples what the node's ranks use. `agents` is the number of the run's agents that
        share this machine. `elapsed` is the number of seconds since the ranks' start."""
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
        """Signal the sampling thread to write the last sample and the node's total use, wait for it 0.5 s at most, and
        terminate the process that queries the GPUs. Call this once, when the ranks have ended."""
        self._ending.set()
        self._thread.join(_FAREWELL)
        helper = self._helper
        if helper is not None:
            helper.end(helper.pid in self._ranks.spared)

    def _run(self) -> None:
        """Run the sampling of the node, as the target of its thread. Signals are blocked here, since the main thread
        handles them. Errors end the sampling but are not raised."""
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._sample()
        except OSError:
            return  # the disk is full, or the run was removed: this is reported elsewhere
        except Exception as error:  # noqa: BLE001  # a run never ends because of its samples
            note(f"the ranks' resource use is not sampled any more: {type(error).__name__}: {error}")

    def _sample(self) -> None:
        from worldsize.wings.metrics.agent.intervals import next_pause
        from worldsize.wings.metrics.agent.sample_writer import SampleWriter

        started = time.time() - (time.monotonic() - self._began)
        writer = SampleWriter(self._plan, self._paths, self._node, self._ranks, self._agents, started)
        self._start_helper()
        spent = time.thread_time()  # the CPU time of the start does not lengthen the pauses
        while True:
            ended = self._ending.is_set() or not self._ranks.running()
            elapsed = time.monotonic() - self._began
            gpus, cost = self._read_gpus(ended, elapsed, writer)
            writer.sample(gpus, self._helper.computing if gpus and self._helper else (), elapsed, ended)
            if ended:
                return writer.conclude(elapsed)
            spent, before = time.thread_time(), spent
            self._ending.wait(next_pause(elapsed, cost + spent - before, self._agents, writer.written))

    def _start_helper(self) -> None:
        from worldsize.wings.metrics.agent.gpus.devices import gpu_environment, has_gpus

        if self._plan.gpus != 0 and has_gpus(self._environ):
            from worldsize.wings.metrics.agent.gpus.helper import GpuHelper

            self._helper = GpuHelper(gpu_environment(self._plan, self._environ))
            self._ranks.spared.add(self._helper.pid)

    def _read_gpus(self, ended: bool, elapsed: float, writer: SampleWriter) -> tuple[tuple[GpuSample, ...], float]:
        """Return a reading of the node's GPUs (a GpuSample for each), and the CPU seconds that it took. Write the
        header of the samples file as soon as the GPUs are known, or when it can no longer wait for them."""
        found = self._helper.find(0.0 if ended else _ANSWER) if self._helper is not None else ()
        if found is not None or ended or elapsed > _DRIVER:
            writer.begin(found or ())
        if ended or self._helper is None:
            return (), 0.0
        return self._helper.read(_ANSWER)
