"""The records of an agent's samples, as lines of JSON in `samples/node-0000.jsonl`. The header comes first, then the
samples in the order of time, and a NodeUse last, if the agent could write one.

Counters are cumulative and never fall. A rank's `cpu`, `read` and `written` count from its start, and a node's
`received` and `sent` from its first sample on. A value that cannot be read on a node is None. The units are bytes,
seconds and watts; shares are between 0 and 1. A header and a use are objects. A sample, of which there are many, is the
list of its values:

    {"header":{"version":1,"time":1764224000.1,"host":"n1","node_rank":0,"cores":8,"memory":67000000000,"gpus":[[…]],…}}
    {"sample":[1764224002.1,[[0,1.93,1200000000,4096,0]],0,0,[[0,0.97,4000000000,312.0]]]}
    {"use":{"seconds":61.2,"samples":14,"cpu":58.1,…}}

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json

from worldsize.common.json_values import PARSE_ERRORS, check_fields, tuple_of
from worldsize.common.named_tuple import NamedTuple, TypeAlias

SAMPLES_VERSION = 1
LONGEST_LINE = 1 << 20
"""The maximum length of a line in bytes. A node of 1000 ranks and 16 GPUs writes a tenth of it."""


class GpuFacts(NamedTuple):
    """A GPU that the node's ranks may use, with its number on the node. `memory` is its total memory in bytes."""

    gpu: int
    uuid: str
    model: str
    memory: int | None


class SamplesHeader(NamedTuple):
    """The header of the samples of one node.

    time    when the ranks were started, in Unix seconds
    cores   the CPUs that the agent, and so its ranks, may use
    memory  what its control group allows, else what the machine has
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
    """A sample of one GPU. `busy` is the share of the time since the last sample in which a kernel ran, as NVML reports
    it."""

    gpu: int
    busy: float | None
    memory: int | None
    power: float | None


class RankSample(NamedTuple):
    """A sample of all processes of a rank together. A rank that has ended has no memory.

    memory         resident memory; files and shared memory that processes share are counted once, and memory that they
                   share since a fork is counted for each process
    read, written  by read(2), write(2) and the like, from files, pipes and caches as well as disks
    """

    rank: int
    cpu: float
    memory: int
    read: int | None
    written: int | None


class NodeSample(NamedTuple):
    """A sample of one node.

    ranks           empty if a service of the machine starts the ranks, as Slurm's does for srun: no agent finds these
    received, sent  by all interfaces but loopback, and by the ports of an InfiniBand fabric, including the traffic of
                    other programs; None on nodes that share one machine. An interface on top of others, such as a bond,
                    is not counted in addition to them
    """

    time: float
    ranks: tuple[RankSample, ...]
    received: int | None = None
    sent: int | None = None
    gpus: tuple[GpuSample, ...] = ()


class GpuUse(NamedTuple):
    """The use of a GPU over the whole attempt. `busy` is the mean, `memory` the maximum, and `power` the mean. `own` is
    True if a process of the node's ranks was seen on it; else None."""

    gpu: int
    busy: float | None
    memory: int | None
    power: float | None
    own: bool | None = None


class NodeUse(NamedTuple):
    """The use of a node over the whole attempt, in the `seconds` from its ranks' start to their end.

    samples     the number of samples; one of them is taken at the end
    cpu         seconds of CPU time that all ranks took to their end, which may be more than the last sample has
    memory      the maximum of all ranks together; like `cpu` None if the samples have no ranks
    first_busy  seconds from the ranks' start until a GPU was busy for the first time; None if no GPU was
    """

    seconds: float
    samples: int
    cpu: float | None
    memory: int | None
    received: int | None
    sent: int | None
    gpus: tuple[GpuUse, ...] = ()
    first_busy: float | None = None


Record: TypeAlias = "SamplesHeader | NodeSample | NodeUse"


def to_line(record: Record) -> bytes:
    """Return the record of a node's samples (header, sample or use) as a line of JSON, including the newline."""
    value = {_name_of(record): record if isinstance(record, NodeSample) else record._asdict()}
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


def from_line(line: bytes) -> Record | None:
    """Return the record of a line of a node's samples file: a SamplesHeader, NodeSample or NodeUse; None if the line
    was cut, or is not a record of this version."""
    if len(line) > LONGEST_LINE:
        return None
    try:
        return _record_of(json.loads(line))
    except PARSE_ERRORS:
        return None


def _name_of(record: Record) -> str:
    if isinstance(record, NodeSample):
        return "sample"
    return "use" if isinstance(record, NodeUse) else "header"


def _record_of(value: dict[str, object]) -> Record | None:
    if "sample" in value:
        return check_fields(tuple_of(NodeSample, value["sample"]))
    if "use" in value:
        return check_fields(tuple_of(NodeUse, value["use"]))
    header = check_fields(tuple_of(SamplesHeader, value["header"]))
    return header if header.version == SAMPLES_VERSION else None
