"""The writer of one node's samples, and of the list of files that its ranks have open for TensorBoard.

Standard library only: travels inside agent.pyz (Python >= 3.8), and is loaded by the thread that samples.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Sequence

from worldsize.agent.machine.node_resources import has_kernels_pids, usable_cores, usable_memory
from worldsize.agent.posix.processes import host_name
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.plan import NodePlan, Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics.agent.line_file import LineFile
from worldsize.wings.metrics.agent.network import NodeTraffic
from worldsize.wings.metrics.agent.node_sampler import NodeSampler
from worldsize.wings.metrics.agent.node_use import UseTotals
from worldsize.wings.metrics.agent.records import SAMPLES_VERSION, GpuFacts, GpuSample, SamplesHeader, to_line
from worldsize.wings.metrics.agent.tensorboard_files import OpenEventFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.agent.supervision.rank_processes import RankProcesses


class SampleWriter:
    """The writer of the two files of one node, its samples and its list of TensorBoard files, each of which is created
    when its first line is known."""

    def __init__(
        self, plan: Plan, paths: RunPaths, node: NodePlan, ranks: RankProcesses, agents: int, started: float
    ) -> None:
        """Create a writer of the samples of one node. `started` is the time of the ranks' start in Unix seconds.
        `agents` is the number of agents that share this machine."""
        self._node_rank, self._ranks, self._started = node.node_rank, ranks, started
        self._traffic = NodeTraffic(is_shared=agents > 1)
        found = [] if launcher_facts(plan.launcher).step_program else [each.rank for each in node.ranks]
        self._sampler = NodeSampler(found, self._traffic)
        self._memory = usable_memory()
        self._totals = UseTotals(self._memory)
        self._has_kernels_pids = has_kernels_pids()
        self._file = LineFile(paths.samples(node.node_rank))
        self._held = b""
        self._has_begun = False
        self._children = _children_time()
        self._events = OpenEventFiles()
        self._events_file = LineFile(paths.tensorboard_files(node.node_rank))

    @property
    def written(self) -> int:
        return self._file.written

    def begin(self, gpus: Sequence[GpuFacts]) -> None:
        """Write the header of the samples file with the node's GPUs, and the samples that were held until now. Later
        calls do nothing."""
        if self._has_begun:
            return
        self._has_begun = True
        facts = usable_cores(), self._memory, tuple(gpus), self._traffic.interfaces
        header = SamplesHeader(SAMPLES_VERSION, round(self._started, 3), host_name(), self._node_rank, *facts)
        self._held = to_line(header) + self._held
        self._append(b"")

    def sample(
        self, gpus: tuple[GpuSample, ...], computing: Collection[tuple[int, int]], elapsed: float, ended: bool
    ) -> None:
        """Take a sample of the node and write it, or hold it until the header has been written. `gpus` is the reading
        of the GPUs; `computing` are pairs of a GPU and a process that computes on it, as the driver numbers them.
        Unless the ranks have `ended`, newly opened TensorBoard files are listed as well."""
        sample = self._sampler.take(self._ranks, self._started + elapsed, gpus)
        self._totals.add(sample, elapsed)
        if computing and self._has_kernels_pids:
            pids = {pid for tree in self._sampler.trees.values() for pid in tree}
            self._totals.own.update(gpu for gpu, pid in computing if pid in pids)
        self._append(to_line(sample))
        if not ended:
            self._append_event_files()

    def conclude(self, elapsed: float) -> None:
        """Write the total resource use of the node to the samples file. The duration is at most `elapsed` seconds, even
        if the clock was changed meanwhile."""
        ended = max([exit.ended for exit in list(self._ranks.exits)], default=time.time())
        seconds = min(elapsed, ended - self._started) if ended > self._started else elapsed
        self._append(to_line(self._totals.use(seconds, _children_time() - self._children)))

    def _append(self, line: bytes) -> None:
        self._held += line
        if self._has_begun:
            lines, self._held = self._held, b""
            self._file.append(lines)

    def _append_event_files(self) -> None:
        found = self._events.look(self._sampler.trees)
        lines = [json.dumps({"path": path, "rank": rank}, separators=(",", ":")) + "\n" for path, rank in found]
        self._events_file.append("".join(lines).encode("ascii"))


def _children_time() -> float:
    """Return the CPU time in seconds of all processes that this one has waited for."""
    times = os.times()
    return times.children_user + times.children_system
