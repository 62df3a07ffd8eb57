"""The files of samples that an agent writes, without ranks of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import RankExit
from worldsize.wings.metrics.agent import sample_writer
from worldsize.wings.metrics.agent.line_file import LineFile
from worldsize.wings.metrics.agent.records import GpuSample, NodeSample, NodeUse, SamplesHeader, from_line
from worldsize.wings.metrics.agent.sample_writer import SampleWriter

PLAN = Plan("r", "t", "slurm", 1.0, 0, node_major_layout(1, 2), ("true",), {}, metrics=True)


def write(tmp_path: Path, plan: Plan = PLAN, exits: tuple[RankExit, ...] = ()) -> tuple[NodeSample, NodeUse]:
    """The sample and the use that the agent of a node leaves which ends after 9 s."""
    paths = RunPaths(str(tmp_path))
    os.makedirs(paths.attempt_dir)
    processes = RankProcesses()
    processes._running[os.getpid()] = Process((0, 1), (), {}, "", ())
    processes.exits.extend(exits)
    writer = SampleWriter(plan, paths, PLAN.nodes[0], processes, 1, 1000.0)
    gpus = (GpuSample(0, 0.5, 1, None), GpuSample(1, 0.5, 1, None))
    writer.sample(gpus, [(0, 1), (1, os.getpid())], 2.0, False)
    assert not os.path.exists(paths.samples(0)), "there is no header yet"
    writer.begin(())
    writer.conclude(9.0)
    header, sample, use = map(from_line, Path(paths.samples(0)).read_bytes().splitlines())
    assert isinstance(header, SamplesHeader)
    assert isinstance(sample, NodeSample)
    assert isinstance(use, NodeUse)
    return sample, use


@pytest.mark.parametrize(("launcher", "ranks"), [("srun", ()), ("mpirun", (0, 1)), ("direct", (0, 1))])
def test_ranks_that_slurm_starts_are_not_taken_for_idle(tmp_path: Path, launcher: str, ranks: tuple[int, ...]) -> None:
    sample, use = write(tmp_path, PLAN._replace(launcher=launcher))
    assert tuple(rank.rank for rank in sample.ranks) == ranks
    assert (use.cpu is None, use.memory is None) == (not ranks, not ranks)


@pytest.mark.parametrize(("kernels", "own"), [(True, [None, True]), (False, [None, None])])
def test_whose_processes_compute_is_known_where_the_driver_numbers_them_as_the_agent_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: bool, own: list[bool | None]
) -> None:
    monkeypatch.setattr(sample_writer, "has_kernels_pids", lambda: kernels)
    assert [gpu.own for gpu in write(tmp_path)[1].gpus] == own


@pytest.mark.parametrize(("ended", "seconds"), [(1008.5, 8.5), (4600.0, 9.0), (100.0, 9.0)])
def test_a_clock_that_is_set_makes_no_run_longer(tmp_path: Path, ended: float, seconds: float) -> None:
    assert write(tmp_path, exits=(RankExit(0, 0, 1000.0, ended),))[1].seconds == seconds


def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    os.makedirs(tmp_path / "samples")
    os.mkfifo(tmp_path / "samples/node-0000.jsonl")
    with pytest.raises(OSError, match="No such device"):
        LineFile(str(tmp_path / "samples/node-0000.jsonl")).append(b"line\n")
