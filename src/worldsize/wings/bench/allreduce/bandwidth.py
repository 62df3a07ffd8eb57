"""Bandwidth of an all-reduce, and the share of a network's rate that it comes to."""

from __future__ import annotations

from worldsize.wings.bench.allreduce.report import Row

JUDGED_FROM = 512 << 20
"""Bytes: below it latency and pipelines decide, on every fabric that was measured (anchors: 12 % of the rate at 16 MiB
where 73 % are reached in the end)."""


def algorithm_bandwidth(size: int, seconds: float) -> float:
    """GB/s of 10^9 bytes."""
    return size / seconds / 1e9


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """2(n-1)/n of the algorithm's: what each link carries in the best algorithm. 0 with one rank."""
    return algorithm_bandwidth(size, seconds) * 2 * (ranks - 1) / ranks


def best_time(row: Row) -> float:
    """Seconds of the faster of both forms."""
    return min(row.seconds, row.out_seconds or row.seconds)


def row_bandwidth(row: Row, ranks: int) -> float:
    return bus_bandwidth(row.size, best_time(row), ranks)


def network_rate_per_rank(bus: float, nodes: int, ranks: int) -> float:
    """Of the bus bandwidth what goes over the network for each rank: (k-1)/(n-1) with k nodes and n ranks, GB/s."""
    return bus * (nodes - 1) / (ranks - 1) if ranks > 1 else 0.0
