"""What nodes, GPUs and ranks have used, as figures over an attempt, or over what of it has passed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics.agent.records import GpuSample, NodeSample, RankSample
from worldsize.wings.metrics.run_files import sampled_nodes
from worldsize.wings.metrics.samples import NodeSamples, read_node_samples

_SAMPLES = 200
"""So many of a node are enough for means and for what its agent has not reckoned yet."""


class GpuFigures(NamedTuple):
    """`busy`: the mean share of time; `memory`: the highest, in bytes; `power`: the mean, in watts."""

    gpu: int
    model: str
    busy: float | None
    memory: int | None
    memory_size: int | None
    power: float | None


class RankFigures(NamedTuple):
    """`cpus`: how many were busy in the mean; `memory`: the highest, in bytes; `read`, `written`: bytes, all in all."""

    rank: int
    cpus: float | None
    memory: int
    read: int | None
    written: int | None


class NodeFigures(NamedTuple):
    """seconds  how long the ranks have been sampled
    cpus        how many of `cores` were busy in the mean
    memory      the highest of all ranks together, in bytes
    received, sent  bytes per second, in the mean, from the first sample on
    """

    node_rank: int
    host: str
    time: float
    seconds: float
    cpus: float | None
    cores: int
    memory: int | None
    memory_size: int | None
    received: float | None
    sent: float | None
    gpus: tuple[GpuFigures, ...]
    ranks: tuple[RankFigures, ...]


def run_figures(paths: RunPaths) -> list[NodeFigures]:
    """The figures of every node that has samples in the attempt of `paths`."""
    found = [(number, read_node_samples(paths, number, _SAMPLES)) for number in sampled_nodes(paths)]
    return [node_figures(number, node) for number, node in found if node is not None]


def node_figures(node_rank: int, node: NodeSamples) -> NodeFigures:
    """What the node's agent has reckoned at the end; before it, what its samples tell."""
    header, use, samples = node.header, node.use, node.samples
    seconds = use.seconds if use else samples[-1].time - header.time if samples else 0.0
    counted = samples[-1].time - samples[0].time if samples else 0.0
    cpu, memory, received, sent = _totals(node)
    return NodeFigures(
        node_rank, header.host, samples[-1].time if samples else header.time, max(seconds, 0.0),
        _rate(cpu, seconds), header.cores, memory, header.memory, _rate(received, counted), _rate(sent, counted),
        _gpu_figures(node), _rank_figures(samples, header.time),
    )  # fmt: skip


def _totals(node: NodeSamples) -> tuple[float | None, int | None, int | None, int | None]:
    use, samples = node.use, node.samples
    if use:
        return use.cpu, use.memory, use.received, use.sent
    if not samples:
        return None, None, None, None
    if not samples[-1].ranks:
        return None, None, samples[-1].received, samples[-1].sent
    memory = max(sum(rank.memory for rank in sample.ranks) for sample in samples)
    return sum(rank.cpu for rank in samples[-1].ranks), memory, samples[-1].received, samples[-1].sent


def _rate(count: float | None, seconds: float) -> float | None:
    return None if count is None or seconds <= 0 else max(count, 0.0) / seconds


def _gpu_figures(node: NodeSamples) -> tuple[GpuFigures, ...]:
    used = {each.gpu: each for each in node.use.gpus} if node.use else {}
    seen: dict[int, list[GpuSample]] = {}
    for sample in node.samples:
        for gpu in sample.gpus:
            seen.setdefault(gpu.gpu, []).append(gpu)
    figures = []
    for facts in node.header.gpus:
        use, samples = used.get(facts.gpu), seen.get(facts.gpu, [])
        busy = use.busy if use else _mean([each.busy for each in samples])
        memory = use.memory if use else max([each.memory for each in samples if each.memory is not None], default=None)
        power = use.power if use else _mean([each.power for each in samples])
        figures.append(GpuFigures(facts.gpu, facts.model, busy, memory, facts.memory, power))
    return tuple(figures)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _rank_figures(samples: Sequence[NodeSample], begun: float) -> tuple[RankFigures, ...]:
    """Of each rank its last sample, and its highest memory: a rank that ended early has none in later ones."""
    last: dict[int, tuple[float, RankSample]] = {}
    highest: dict[int, int] = {}
    for sample in samples:
        for rank in sample.ranks:
            last[rank.rank] = sample.time, rank
            highest[rank.rank] = max(rank.memory, highest.get(rank.rank, 0))
    return tuple(
        RankFigures(number, _rate(rank.cpu, time - begun), highest[number], rank.read, rank.written)
        for number, (time, rank) in sorted(last.items())
    )
