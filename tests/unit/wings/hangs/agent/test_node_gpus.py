"""Which GPUs of a node are read, and that nothing waits for a driver; in the place of the process that asks it stands
a value."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.wings.hangs.agent import node_gpus
from worldsize.wings.hangs.agent.node_gpus import NodeGpus
from worldsize.wings.hangs.judgement.gpu_signs import GpuReading
from worldsize.wings.metrics.agent.gpus.helper import GpuTraffic
from worldsize.wings.metrics.agent.records import GpuFacts, GpuSample

OWN, BELOW, FOREIGN, HELPER = 100, 101, 200, 300
FACTS = (GpuFacts(0, "GPU-0", "", None), GpuFacts(1, "GPU-1", "", None))
Answer = tuple[tuple[GpuSample, ...], list[GpuTraffic], list[tuple[int, int]]]
NOTHING: Answer = ((), [], [])


class Helper:
    """Answers, one for each call."""

    def __init__(self, *answers: Answer, gpus: tuple[GpuFacts, ...] | None = FACTS) -> None:
        self.pid = HELPER
        self.computing: list[tuple[int, int]] = []
        self.traffic: list[GpuTraffic] = []
        self.ended: list[bool] = []
        self._answers = list(answers)
        self._gpus = gpus

    def find(self, patience: float) -> tuple[GpuFacts, ...] | None:
        assert patience == 0.0
        return self._gpus

    def poll(self) -> tuple[GpuSample, ...]:
        samples, traffic, computing = self._answers.pop(0)
        if samples:
            self.traffic, self.computing = traffic, computing
        return samples

    def end(self, is_unreaped: bool) -> None:
        self.ended.append(is_unreaped)


def answer(listed: bool = True, computing: tuple[tuple[int, int], ...] = ()) -> Answer:
    """Of two GPUs, the second of which is the busier."""
    samples = GpuSample(0, 1.0, None, 300.0), GpuSample(1, 1.0, None, None)
    return samples, [GpuTraffic(0, 0.4, listed), GpuTraffic(1, 0.5, listed)], list(computing)


FIRST, SECOND = GpuReading(0, 0.4, 300.0), GpuReading(1, 0.5, None)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[NodeGpus, RankProcesses]]:
    """The GPUs of a node with one rank, as this helper tells of them."""

    def begin(helper: Any, knows_pids: bool = True, has_gpus: bool = True) -> tuple[NodeGpus, RankProcesses]:
        def start(environ: object) -> Any:
            if isinstance(helper, OSError):
                raise helper
            return helper

        devices = SimpleNamespace(VISIBLE="CUDA_VISIBLE_DEVICES", has_gpus=lambda environ: has_gpus)
        modules = {node_gpus._HELPER: SimpleNamespace(GpuHelper=start), node_gpus._DEVICES: devices}
        monkeypatch.setattr(node_gpus, "find_module", modules.get if helper is not None else lambda name: None)
        monkeypatch.setattr(node_gpus, "has_kernels_pids", lambda: knows_pids)
        monkeypatch.setattr(node_gpus.processes, "trees", lambda roots: [*roots, BELOW])
        ranks = RankProcesses()
        ranks._running[OWN] = Process((0,), ("true",), {}, "log", ())
        return NodeGpus(ranks), ranks

    return begin


@pytest.mark.parametrize(
    ("computing", "found"),
    [
        (((0, OWN), (1, BELOW)), (FIRST, SECOND)),
        (((0, OWN), (0, BELOW)), (FIRST,)),
        (((0, OWN), (0, FOREIGN), (1, OWN)), (GpuReading(0, None, None), SECOND)),
        (((0, FOREIGN), (1, FOREIGN)), ()),
        ((), ()),
    ],
)
def test_those_count_that_the_ranks_alone_compute_on(
    watch: Any, computing: tuple[tuple[int, int], ...], found: tuple[GpuReading, ...]
) -> None:
    gpus, ranks = watch(Helper(answer(True, computing)))
    assert gpus.read() == found
    assert HELPER in ranks.spared


def test_where_nobody_tells_who_computes_visible_ones_are_the_ranks(watch: Any) -> None:
    assert watch(Helper(answer(listed=False)))[0].read() == (FIRST, SECOND)
    assert watch(Helper(answer(computing=((0, FOREIGN),))), knows_pids=False)[0].read() == (FIRST, SECOND)


def test_of_a_gpu_without_traffic_nothing_is_told(watch: Any) -> None:
    samples, traffic, computing = answer(listed=False)
    assert watch(Helper((samples, traffic[1:], computing)))[0].read() == (GpuReading(0, None, None), SECOND)
    assert watch(Helper((samples, [], computing)))[0].read() == ()


def test_an_answer_counts_once_and_none_is_waited_for(watch: Any) -> None:
    gpus, _ = watch(Helper(NOTHING, answer(listed=False), NOTHING))
    assert [gpus.read() for _ in range(3)] == [(), (FIRST, SECOND), ()]
    gpus, _ = watch(Helper(gpus=None))
    assert gpus.read() == ()


def test_there_are_none_without_ranks_devices_or_the_wing(watch: Any) -> None:
    for gpus, ranks in (watch(Helper(), has_gpus=False), watch(None), watch(OSError("no process"))):
        assert gpus.read() == ()
        assert not ranks.spared
        gpus.close()
    gpus, ranks = watch(Helper())
    ranks._running.clear()
    assert gpus.read() == ()
    assert not ranks.spared


def test_the_process_is_ended_once(watch: Any) -> None:
    helper = Helper(answer(listed=False))
    gpus, _ = watch(helper)
    gpus.read()
    gpus.close()
    gpus.close()
    assert gpus.read() == ()
    assert helper.ended == [True]
