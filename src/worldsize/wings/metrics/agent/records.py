"""What an agent's samples are, as lines of JSON in `samples/node-0000.jsonl`: the header first, then samples in the
order of time, and a NodeUse last, where the agent could write one.

Counters (`cpu`, `read`, `written`, `received`, `sent`) are cumulative and count from the header on; what cannot be read
on a node is None. Bytes, seconds, watts; shares are between 0 and 1.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple

SAMPLES_VERSION = 1


class GpuFacts(NamedTuple):
    """One GPU that the node's ranks may use, by its number on the node. `memory`: all that it has."""

    gpu: int
    uuid: str
    model: str
    memory: int | None


class SamplesHeader(NamedTuple):
    """cores  CPUs that the agent, and so its ranks, may use
    memory    what its control group allows, else what the machine has
    """

    version: int
    time: float
    host: str
    node_rank: int
    cores: int
    memory: int | None
    gpus: tuple[GpuFacts, ...] = ()
    interfaces: tuple[str, ...] = ()


class GpuSample(NamedTuple):
    """`busy`: the share of the time since the last sample in which a kernel ran, as NVML reports it."""

    gpu: int
    busy: float | None
    memory: int | None
    power: float | None


class RankSample(NamedTuple):
    """A rank's processes, all together. `memory`: resident."""

    rank: int
    cpu: float
    memory: int
    read: int | None
    written: int | None


class NodeSample(NamedTuple):
    """received, sent  of all interfaces but loopback, with the ports of an InfiniBand fabric"""

    time: float
    ranks: tuple[RankSample, ...]
    received: int | None = None
    sent: int | None = None
    gpus: tuple[GpuSample, ...] = ()


class GpuUse(NamedTuple):
    """A GPU over the whole attempt. `busy` is the mean; `memory` and `power` are the highest and the mean. `own`:
    whether a process of the node's ranks was seen on it; None where that cannot be told."""

    gpu: int
    busy: float | None
    memory: int | None
    power: float | None
    own: bool | None = None


class NodeUse(NamedTuple):
    """A node over the whole attempt, `seconds` from its ranks' start to their end.

    cpu     seconds of CPU that the ranks took, all together
    memory  the highest of all ranks together
    first_busy  seconds from the ranks' start until a GPU was busy for the first time; None: none was, or there is none
    """

    seconds: float
    samples: int
    cpu: float
    memory: int
    received: int | None
    sent: int | None
    gpus: tuple[GpuUse, ...] = ()
    first_busy: float | None = None
