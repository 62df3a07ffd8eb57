"""Bus bandwidth, and what share of its adapters' rate it is.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

SMALLEST = 512 * 1024 * 1024
"""Bytes below which no bandwidth is judged: on the same fabric 512 MiB reached 63 % of the adapters' rate, 64 MiB 30 %,
16 MiB 12.5 % (stas00/ml-engineering)."""

GOOD = 0.70
"""Of the adapters' rate: fabrics that were measured reached 71 to 73 % at 1 GiB and more."""

POOR = 0.50
"""Below it something is wrong. No published number: see GOOD."""

FAR = 0.25
"""Below it the transport is the first thing to look at: TCP was at 20 % of its InfiniBand (AReaL#639)."""


def bus_bandwidth(size: float, seconds: float, ranks: int) -> float:
    """GB/s (10^9 bytes) of an all-reduce of `size` bytes, as nccl-tests count it; 0 where nothing was measured."""
    if ranks < 2 or seconds <= 0 or size <= 0:
        return 0.0
    return size / seconds * 2 * (ranks - 1) / ranks / 1e9


def network_rate(bandwidth: float, nodes: int, ranks: int) -> float:
    """GB/s that each node sent into the network during an all-reduce with this bus bandwidth: each of its ranks
    `bandwidth` × (k - 1) / (n - 1), for k nodes and n ranks."""
    if nodes < 2 or ranks < nodes:
        return 0.0
    return bandwidth * (nodes - 1) / (ranks - 1) * ranks / nodes


def share_of_rate(bandwidth: float, nodes: int, ranks: int, gbps_per_node: float) -> float | None:
    """What share of its adapters' rate (Gb/s of a node) this bus bandwidth is; None where the rate is not known."""
    if gbps_per_node <= 0 or nodes < 2:
        return None
    return network_rate(bandwidth, nodes, ranks) / (gbps_per_node / 8)


def least_sent(size: float, times: int) -> float:
    """Bytes that each node must at least send into the network for `times` all-reduces of `size` bytes, whatever the
    algorithm: with a reduction in the switches each byte leaves a node once, with rings and trees more often."""
    return max(size, 0) * max(times, 0)
