"""Bandwidth of an all-reduce, computed as nccl-tests does."""

from __future__ import annotations

from worldsize.wings.bench.allreduce.report import Row


def algorithm_bandwidth(size: int, seconds: float) -> float:
    """Return the algorithm bandwidth of an all-reduce of `size` bytes that takes `seconds`, in GB/s of 10^9 bytes."""
    return size / seconds / 1e9


def bus_bandwidth(size: int, seconds: float, ranks: int) -> float:
    """Return the bus bandwidth of an all-reduce of `size` bytes that takes `seconds` on `ranks` ranks, in GB/s:
    2(n-1)/n of the algorithm bandwidth, which is what each link carries in the best algorithm. 0 with one rank."""
    return algorithm_bandwidth(size, seconds) * 2 * (ranks - 1) / ranks


def best_time(row: Row) -> float:
    """Return the seconds of one all-reduce of the size of `row`, in the faster of its two forms, in place and out of
    place."""
    return min(row.seconds, row.out_seconds or row.seconds)


def row_bandwidth(row: Row, ranks: int) -> float:
    return bus_bandwidth(row.size, best_time(row), ranks)
