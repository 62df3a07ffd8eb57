"""The sampler of one node, which measures what its ranks and the node itself have used so far.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence

from worldsize.agent.launchers.rank_process import Process
from worldsize.common.named_tuple import Protocol
from worldsize.wings.metrics.agent.network import NodeTraffic
from worldsize.wings.metrics.agent.process_use import Growth, ProcessUse, sum_of
from worldsize.wings.metrics.agent.rank_trees import RankTrees
from worldsize.wings.metrics.agent.records import GpuSample, NodeSample, RankSample


class SampledRanks(Protocol):
    """The ranks' processes, as `agent.supervision.rank_processes` provides them."""

    spared: set[int]

    def running(self) -> Mapping[int, Process]: ...


class NodeSampler:
    """A sampler of the resources that the ranks of one node and the node itself have used. `trees` contains the process
    numbers of each rank, as the last sample has found them."""

    def __init__(
        self, ranks: Collection[int], traffic: NodeTraffic, trees: RankTrees | None = None, hertz: int = 0
    ) -> None:
        """Create a sampler of one node. `ranks` are the ranks whose processes the agent can find; empty if it can find
        none. `traffic` counts the node's network bytes."""
        self.trees: dict[int, Sequence[int]] = {}
        self._totals = {rank: _RankTotals(hertz or os.sysconf("SC_CLK_TCK")) for rank in sorted(ranks)}
        self._traffic = traffic
        self._finder = trees or RankTrees()

    def take(self, ranks: SampledRanks, time: float, gpus: tuple[GpuSample, ...]) -> NodeSample:
        """Return a sample of the node at `time` (Unix seconds): what each rank has used so far, the network traffic,
        and `gpus`, the current reading of the GPUs."""
        found = self._finder.look(dict(ranks.running()), frozenset(ranks.spared)) if self._totals else {}
        self.trees = {rank: tuple(uses) for rank, uses in found.items()}
        rows = tuple(totals.sample(rank, found.get(rank, {})) for rank, totals in self._totals.items())
        return NodeSample(round(time, 3), rows, *self._traffic.read(), gpus)


class _RankTotals:
    def __init__(self, hertz: int) -> None:
        self._hertz = hertz
        self._ticks, self._read, self._written = Growth(), Growth(), Growth()

    def sample(self, rank: int, uses: Mapping[int, ProcessUse]) -> RankSample:
        """Return what the rank has used so far (CPU time, memory, bytes read and written), including processes that
        have ended. `uses` is the current use of its living processes, by process number."""
        use = sum_of(uses.values())
        ticks = self._ticks.add(use.ticks if uses else None) or 0
        read, written = self._read.add(use.read), self._written.add(use.written)
        return RankSample(rank, round(ticks / self._hertz, 2), use.memory, read, written)
