"""What a cluster has and what of it is free: nodes and partitions, from one sinfo each.

Columns are asked for with width 0 and our own separator, as in `queue`. The state is sinfo's StateLong, whose last
character is a mark (sinfo's manual, "NODE STATE CODES").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from worldsize.compute.slurm.job_rows import format_option, number_of, seconds_of, values_of

_SINFO = ("sinfo", "--noheader", "--all", "--noconvert", "--local")
_NODE_COLUMNS = (
    "nodelist", "statelong", "partitionname", "cpusstate", "memory", "allocmem", "gres", "gresused", "reason",
    "features",
)  # fmt: skip
_PARTITION_COLUMNS = (
    "partition", "available", "time", "defaulttime", "size", "nodes", "cpus", "memory", "gres", "groups",
)  # fmt: skip
_MARKS = {
    "*": "not responding",
    "~": "powered down",
    "#": "powering up",
    "!": "about to be powered down",
    "%": "powering down",
    "$": "in maintenance",
    "@": "about to be rebooted",
    "^": "rebooting",
    "-": "planned for a job",
    "+": "a job is ending",
}
_USABLE = frozenset(("idle", "mixed", "allocated", "completing", "planned", "power_down", "power_up"))
_UNUSABLE_MARKS = frozenset("*$@^%")
_GRES = re.compile(r"(?:gres[:/])?([A-Za-z][\w-]*)[:=](?:(\(null\)|[^:,()=]+)[:=])?(\d+)[KMGT]?(?:\([^)]*\))?(?:,|$)")
_FIRST_NUMBER = re.compile(r"\d+")
_NOTHING = frozenset(("(null)", "none", "n/a", "None", "N/A", ""))


class NodeRow(NamedTuple):
    """One node. Memory is in MiB.

    state       Slurm's word without its mark: "idle", "mixed", "allocated", "drained", "down", …
    note        what the mark adds: "not responding", "powered down", …; "" for none
    usable      whether Slurm starts jobs on it now, or once others end
    reason      why it is down or drained, as its administrator, or Slurm, put it
    gpu_type    as gres.conf names it: "h100"; several: "a100,a30"; "" for none
    gpus_used   of its GPUs, those that jobs hold
    """

    name: str
    state: str
    note: str
    usable: bool
    reason: str
    partitions: tuple[str, ...]
    cpus: int
    cpus_used: int
    memory: int
    memory_used: int
    gpu_type: str
    gpus: int
    gpus_used: int
    features: str

    @property
    def gpus_free(self) -> int:
        return max(self.gpus - self.gpus_used, 0) if self.usable else 0

    @property
    def cpus_free(self) -> int:
        return max(self.cpus - self.cpus_used, 0) if self.usable else 0


class PartitionRow(NamedTuple):
    """One partition. Memory is in MiB, times in seconds; None for no limit.

    up             it takes and starts jobs
    max_nodes      that one job may have; None for no limit
    gpus_per_node  the most that one of its nodes has; so for CPUs and memory
    groups         Unix groups that may use it: "all" or names
    """

    name: str
    default: bool
    up: bool
    max_time: int | None
    default_time: int | None
    max_nodes: int | None
    nodes: int
    cpus_per_node: int
    memory_per_node: int
    gpus_per_node: int
    gpu_type: str
    groups: str


def nodes(run: Callable[[Sequence[str]], str]) -> list[NodeRow]:
    """Every node, once, in sinfo's order; raises as `run` does."""
    return node_rows(run([*_SINFO, "--Node", format_option(_NODE_COLUMNS)]))


def partitions(run: Callable[[Sequence[str]], str]) -> list[PartitionRow]:
    """Every partition, hidden ones too; raises as `run` does."""
    return partition_rows(run([*_SINFO, format_option(_PARTITION_COLUMNS)]))


def node_rows(text: str) -> list[NodeRow]:
    """sinfo --Node prints a node once for each of its partitions."""
    found: dict[str, NodeRow] = {}
    for value in values_of(text, _NODE_COLUMNS):
        row = _node(value)
        seen = found.get(row.name)
        if seen:
            row = seen._replace(partitions=tuple(dict.fromkeys((*seen.partitions, *row.partitions))))
        found[row.name] = row
    return list(found.values())


def partition_rows(text: str) -> list[PartitionRow]:
    """sinfo prints a partition once for each kind of node in it."""
    found: dict[str, PartitionRow] = {}
    for value in values_of(text, _PARTITION_COLUMNS):
        row = _partition(value)
        seen = found.get(row.name)
        if seen:
            row = row._replace(
                nodes=seen.nodes + row.nodes,
                cpus_per_node=max(seen.cpus_per_node, row.cpus_per_node),
                memory_per_node=max(seen.memory_per_node, row.memory_per_node),
                gpus_per_node=max(seen.gpus_per_node, row.gpus_per_node),
                gpu_type=",".join(sorted(({*seen.gpu_type.split(","), *row.gpu_type.split(",")}) - {""})),
            )
        found[row.name] = row
    return list(found.values())


def gpus_of(gres: str) -> tuple[str, int]:
    """Type and number of the GPUs in "gpu:h100:4(S:0-1)", "gpu:4", "gpu:(null):0(IDX:N/A)", "gpu:a:2,gpu:b:1".

    What a job asked for per node is written alike, "gpu:2" in 20.11, "gres:gpu:2" and "gres/gpu:2" later.
    """
    types: list[str] = []
    count = 0
    for name, kind, number in _GRES.findall(gres):
        if name == "gpu":
            count += int(number)
            if kind and kind != "(null)":
                types.append(kind)
    return ",".join(dict.fromkeys(types)), count


def _node(value: dict[str, str]) -> NodeRow:
    state, mark = value["statelong"].lower(), ""
    if state[-1:] in _MARKS:
        state, mark = state[:-1], state[-1]
    used, _, _, total = (number_of(part) for part in (value["cpusstate"] + "///").split("/")[:4])
    gpu_type, gpus = gpus_of(value["gres"])
    return NodeRow(
        value["nodelist"],
        state,
        _MARKS.get(mark, ""),
        state in _USABLE and mark not in _UNUSABLE_MARKS,
        "" if value["reason"] in _NOTHING else value["reason"],
        (value["partitionname"],) if value["partitionname"] else (),
        total,
        used,
        number_of(value["memory"]),
        number_of(value["allocmem"]),
        gpu_type,
        gpus,
        gpus_of(value["gresused"])[1],
        "" if value["features"] in _NOTHING else value["features"],
    )


def _partition(value: dict[str, str]) -> PartitionRow:
    gpu_type, gpus = gpus_of(value["gres"])
    most = value["size"].partition("-")[2] or value["size"]
    return PartitionRow(
        value["partition"].rstrip("*"),
        value["partition"].endswith("*"),
        value["available"] == "up",
        seconds_of(value["time"]),
        seconds_of(value["defaulttime"]),
        int(most) if most.isdecimal() else None,
        number_of(value["nodes"]),
        _first_number(value["cpus"]),
        _first_number(value["memory"]),
        gpus,
        gpu_type,
        value["groups"],
    )


def _first_number(text: str) -> int:
    """ "8+": nodes differ, and 8 is the least."""
    match = _FIRST_NUMBER.match(text)
    return int(match.group()) if match else 0
