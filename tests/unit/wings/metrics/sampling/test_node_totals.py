"""A node's samples one after the other, and what it used over the whole attempt."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from worldsize.agent.launchers.rank_process import Process
from worldsize.wings.metrics.agent.node_sampler import NodeSampler
from worldsize.wings.metrics.agent.node_use import UseTotals
from worldsize.wings.metrics.agent.process_use import ProcessUse
from worldsize.wings.metrics.agent.records import GpuSample, GpuUse, NodeSample, NodeUse, RankSample

USE = ProcessUse("S", 1, 1, 1, 250, 1000, 400, 10, 20)


class Ranks:
    """Two ranks, of which those in `living` run."""

    def __init__(self, *living: int) -> None:
        self.spared: set[int] = set()
        self.living = living

    def running(self) -> dict[int, Process]:
        return {100 + rank: Process((rank,), (), {}, "", ()) for rank in self.living}


def sampler(looks: list[dict[int, dict[int, ProcessUse]]]) -> NodeSampler:
    trees: Any = SimpleNamespace(look=lambda running, spared: looks.pop(0))
    traffic: Any = SimpleNamespace(read=lambda: (5, None))
    return NodeSampler([4, 5], traffic, trees, hertz=100)


def test_a_rank_that_has_ended_keeps_its_counts_and_has_no_memory() -> None:
    looks = [{4: {104: USE, 110: USE}, 5: {105: USE}}, {5: {105: USE._replace(ticks=300, read=None)}}, {}]
    taken = sampler(looks)
    first, second, third = (taken.take(Ranks(4, 5), time, ()) for time in (1.0, 2.0, 3.00049))
    assert first == NodeSample(1.0, (RankSample(4, 5.0, 1600, 20, 40), RankSample(5, 2.5, 1000, 10, 20)), 5, None)
    assert second.ranks == (RankSample(4, 5.0, 0, 20, 40), RankSample(5, 3.0, 1000, 10, 20))
    assert third == NodeSample(3.0, (RankSample(4, 5.0, 0, 20, 40), RankSample(5, 3.0, 0, 10, 20)), 5, None)


def test_a_rank_of_which_nothing_is_known_is_there() -> None:
    assert sampler([{}]).take(Ranks(), 1.0, ()).ranks == (
        RankSample(4, 0.0, 0, None, None),
        RankSample(5, 0.0, 0, None, None),
    )


def sample(memory: int = 0, *gpus: GpuSample, cpu: float = 1.0) -> NodeSample:
    return NodeSample(0.0, (RankSample(0, cpu, memory, 0, 0),), 7, 8, gpus)


def test_means_go_by_time_and_memory_by_its_highest() -> None:
    totals = UseTotals(None)
    totals.add(sample(100, GpuSample(0, 0.0, 10, 100.0), GpuSample(1, None, None, None)), 10.0)
    totals.add(sample(300, GpuSample(0, 1.0, 50, 400.0)), 40.0)
    totals.add(sample(200, GpuSample(0, 0.5, 20, 200.0)), 50.0)
    totals.add(sample(0, cpu=3.0), 52.0)
    gpus = (GpuUse(0, 0.7, 50, 300.0), GpuUse(1, None, None, None))
    assert totals.use(51.0, 2.0) == NodeUse(51.0, 4, 3.0, 300, 7, 8, gpus, 40.0)
    assert totals.use(51.0, 9.0).cpu == 9.0


def test_what_counts_for_several_processes_is_no_more_than_the_node_has() -> None:
    totals = UseTotals(150)
    totals.add(sample(300), 1.0)
    assert totals.use(1.0, 0.0).memory == 150


def test_a_gpu_on_which_a_rank_was_seen_is_its_own() -> None:
    totals = UseTotals(None)
    totals.add(sample(0, GpuSample(0, 1.0, 1, 1.0), GpuSample(1, 1.0, 1, 1.0)), 1.0)
    totals.own.add(1)
    assert [gpu.own for gpu in totals.use(1.0, 0.0).gpus] == [None, True]


def test_of_ranks_that_the_agent_cannot_find_nothing_is_said() -> None:
    traffic: Any = SimpleNamespace(read=lambda: (5, 6))
    taken = NodeSampler([], traffic, hertz=100).take(Ranks(0), 1.0, (GpuSample(0, 1.0, 50, 400.0),))
    assert taken == NodeSample(1.0, (), 5, 6, (GpuSample(0, 1.0, 50, 400.0),))
    totals = UseTotals(150)
    totals.add(taken, 1.0)
    assert totals.use(2.0, 0.5) == NodeUse(2.0, 1, None, None, 5, 6, (GpuUse(0, 1.0, 50, 400.0),), 1.0)
