"""What agents have sampled, read back, and the figures that are reckoned from it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_metrics import BEGUN, recorded_run, write_lines
from selection import cases

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics import samples
from worldsize.wings.metrics.agent.records import (
    GpuFacts,
    GpuSample,
    GpuUse,
    NodeSample,
    NodeUse,
    RankSample,
    SamplesHeader,
)
from worldsize.wings.metrics.samples import read_node_samples
from worldsize.wings.metrics.tables import used_tables
from worldsize.wings.metrics.usage import node_figures, run_figures

GB = 10**9
GPU = GpuFacts(0, "GPU-1", "NVIDIA H100", 80 * GB)
HEADER = SamplesHeader(1, BEGUN, "n1", 0, 8, 16 * GB, (GPU,), ("eth0",))
USE = NodeUse(20.0, 3, 60.0, 5 * GB, 2000, 4000, (GpuUse(0, 0.75, 70 * GB, 300.0),), 5.0)


def sample(seconds: float, cpu: float = 0.0, memory: int = GB) -> NodeSample:
    ranks = (RankSample(0, cpu, memory, 10, 20), RankSample(1, cpu / 2, memory, None, None))
    return NodeSample(BEGUN + seconds, ranks, int(100 * seconds), None, (GpuSample(0, 0.5, 40 * GB, 200.0),))


def line(key: str, value: Any) -> str:
    return json.dumps({key: value}, separators=(",", ":")) + "\n"


def as_objects(value: Any) -> Any:
    if hasattr(value, "_asdict"):
        return {name: as_objects(each) for name, each in value._asdict().items()}
    return [as_objects(each) for each in value] if isinstance(value, tuple) else value


def record(paths: RunPaths, *taken: NodeSample, use: NodeUse | None = None, node: int = 0) -> None:
    write_lines(paths.samples(node), line("header", HEADER), *(line("sample", each) for each in taken))
    if use:
        write_lines(paths.samples(node), line("use", use))


def test_lists_and_objects_are_read(tmp_path: Path) -> None:
    paths = recorded_run(tmp_path)
    record(paths, sample(2.0), use=USE)
    found = read_node_samples(paths, 0)
    assert found == (HEADER, (sample(2.0),), USE)
    for key, value in (("header", HEADER), ("sample", sample(2.0)), ("use", USE)):
        write_lines(paths.samples(1), line(key, as_objects(value)))
    assert read_node_samples(paths, 1) == found


def test_without_a_header_there_is_nothing(tmp_path: Path) -> None:
    paths = recorded_run(tmp_path)
    assert read_node_samples(paths, 0) is None
    write_lines(paths.samples(0), "nonsense\n", line("sample", sample(2.0)))
    write_lines(paths.samples(1), line("header", HEADER._replace(version=99)))
    os.mkfifo(paths.samples(2))
    assert [read_node_samples(paths, node) for node in range(3)] == [None] * 3
    assert run_figures(paths) == []


@pytest.mark.parametrize(
    "text",
    [
        "\n", "null\n", '{"sample":null}\n', '{"sample":[1]}\n', '{"sample":{"time":"x","ranks":[]}}\n',
        "[" * 5000 + "\n",
        '{"sample":[NaN,[],1,1,[]]}\n', '{"sample":[1e999,[],1,1,[]]}\n', '{"use":7}\n', '{"use":[1]}\n', "\udcff\0\n",
        line("sample", sample(1.0)), line("sample", sample(-5.0)), '{"sample":[%d,[],1,1,[]]}\n' % 10**40, '{"sam',
    ],
)  # fmt: skip
def test_rubbish_and_samples_that_are_not_newer_are_left_out(tmp_path: Path, text: str) -> None:
    paths = recorded_run(tmp_path)
    record(paths, sample(2.0))
    write_lines(paths.samples(0), text.encode("utf-8", "surrogateescape"))
    if text.endswith("\n"):
        write_lines(paths.samples(0), line("sample", sample(4.0)), '{"sample":[')
    found = read_node_samples(paths, 0)
    assert found is not None and found.use is None
    assert found.samples == ((sample(2.0), sample(4.0)) if text.endswith("\n") else (sample(2.0),))


@settings(max_examples=cases(40))
@given(st.lists(st.one_of(st.binary(max_size=80), st.just(line("sample", sample(2.0)).encode())), max_size=6))
def test_any_bytes_are_read(tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]) -> None:
    paths = recorded_run(tmp_path_factory.mktemp("run"))
    record(paths)
    write_lines(paths.samples(0), *pieces)
    assert len(run_figures(paths)) == 1


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.sampled_from(["time", "ranks", "gpus"]), inner),
    max_leaves=20,
)


@settings(max_examples=cases(40))
@given(st.sampled_from(["header", "sample", "use"]), JSON_VALUES)
def test_values_of_any_type_are_read(tmp_path_factory: pytest.TempPathFactory, key: str, value: Any) -> None:
    paths = recorded_run(tmp_path_factory.mktemp("run"))
    if key != "header":
        record(paths, sample(1.0))
    write_lines(paths.samples(0), line(key, value))
    run_figures(paths)


def test_of_many_samples_evenly_spaced_ones_are_kept(tmp_path: Path) -> None:
    paths = recorded_run(tmp_path)
    record(paths, *(sample(float(k)) for k in range(1, 102)))
    found = read_node_samples(paths, 0, 11)
    assert found is not None
    assert [each.time - BEGUN for each in found.samples] == [float(k) for k in range(1, 102, 10)]


def test_figures_of_a_node_that_runs(tmp_path: Path) -> None:
    paths = recorded_run(tmp_path)
    record(paths, sample(5.0, 10.0, 3 * GB), sample(10.0, 20.0, GB))
    (node,) = run_figures(paths)
    assert (node.cpus, node.cores, node.memory, node.memory_size) == (3.0, 8, 6 * GB, 16 * GB)
    assert (node.seconds, node.received, node.sent) == (10.0, 200.0, None)
    (gpu,) = node.gpus
    assert gpu == (0, "NVIDIA H100", 0.5, 40 * GB, 80 * GB, 200.0)
    assert node.ranks == ((0, 2.0, 3 * GB, 10, 20), (1, 1.0, 3 * GB, None, None))


def test_figures_of_a_node_that_has_ended_are_what_its_agent_has_reckoned(tmp_path: Path) -> None:
    paths = recorded_run(tmp_path)
    record(paths, sample(5.0, 10.0), sample(15.0, 40.0), use=USE)
    (node,) = run_figures(paths)
    assert (node.cpus, node.memory, node.received, node.sent) == (3.0, 5 * GB, 200.0, 400.0)
    assert node.gpus == ((0, "NVIDIA H100", 0.75, 70 * GB, 80 * GB, 300.0),)


def test_ranks_that_no_agent_found_have_no_figures(tmp_path: Path) -> None:
    paths = recorded_run(tmp_path)
    record(paths, sample(5.0)._replace(ranks=()), sample(10.0)._replace(ranks=()))
    (node,) = run_figures(paths)
    assert (node.cpus, node.memory, node.ranks) == (None, None, ())
    assert node.received is not None
    lines = used_tables([node])
    assert "RANK" not in "".join(lines)
    write_lines(paths.samples(0), line("use", USE._replace(cpu=None, memory=None)))
    (node,) = run_figures(paths)
    assert (node.cpus, node.memory) == (None, None)


def test_a_node_without_samples_has_no_figures() -> None:
    node = node_figures(0, samples.NodeSamples(HEADER, (), None))
    assert (node.seconds, node.cpus, node.memory, node.received, node.ranks) == (0.0, None, None, None, ())
    assert node.gpus[0].busy is None


def test_a_sample_of_a_run_that_goes_on_counts_for_the_time_before_it(tmp_path: Path) -> None:
    """Agents sample densely at first, when a run is still starting."""
    paths = recorded_run(tmp_path)
    shares = ((1.0, 0.0), (2.0, 0.0), (3.0, 0.0), (4.0, 0.0), (100.0, 1.0))
    record(paths, *(sample(at)._replace(gpus=(GpuSample(0, busy, GB, 100.0),)) for at, busy in shares))
    (node,) = run_figures(paths)
    assert node.gpus[0].busy == 0.96
