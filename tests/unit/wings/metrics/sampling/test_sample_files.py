"""The files of samples that an agent writes, without ranks of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics.agent.records import NodeSample, NodeUse, from_line
from worldsize.wings.metrics.agent.sampler import _Writing

PLAN = Plan("r", "t", "slurm", 1.0, 0, node_major_layout(1, 2), ("true",), {}, metrics=True)


@pytest.mark.parametrize(("launcher", "ranks"), [("srun", ()), ("mpirun", (0, 1)), ("direct", (0, 1))])
def test_ranks_that_slurm_starts_are_not_taken_for_idle(tmp_path: Path, launcher: str, ranks: tuple[int, ...]) -> None:
    paths = RunPaths(str(tmp_path))
    os.makedirs(paths.attempt_dir)
    processes = RankProcesses()
    processes._running[os.getpid()] = Process((0, 1), (), {}, "", ())
    writing = _Writing(PLAN._replace(launcher=launcher), paths, PLAN.nodes[0], processes, 1, 1000.0)
    writing.begin(())
    writing.sample((), 2.0, False)
    writing.conclude()
    _, sample, use = map(from_line, Path(paths.samples(0)).read_bytes().splitlines())
    assert isinstance(sample, NodeSample)
    assert isinstance(use, NodeUse)
    assert tuple(rank.rank for rank in sample.ranks) == ranks
    assert (use.cpu is None, use.memory is None) == (not ranks, not ranks)
