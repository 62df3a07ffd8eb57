"""Nodes and partitions of a Slurm cluster with their free resources, from one sinfo each.

Columns are requested with width 0 and the separator of `job_rows`, as in `queue`. The state is sinfo's StateLong, whose
last character is a mark (sinfo's manual, "NODE STATE CODES").
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.compute.slurm.job_rows import format_option, number_of, seconds_of, values_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.compute.capabilities import ComputeNode

_SINFO = ("sinfo", "--noheader", "--all", "--noconvert", "--local")
_NODE_COLUMNS = (
    "nodelist", "statelong", "partitionname", "cpusstate", "memory", "allocmem", "gres", "gresused", "reason",
)  # fmt: skip
_PARTITION_COLUMNS = ("partition", "available", "time", "size", "nodes", "gres")
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
_GRES = r"(?:gres[:/])?([A-Za-z][\w-]*)[:=](?:(\(null\)|[^:,()=]+)[:=])?(\d+)[KMGT]?(?:\([^)]*\))?(?:,|$)"
_NOTHING = frozenset(("(null)", "none", "n/a", "None", "N/A", ""))


class PartitionRow(NamedTuple):
    """A partition of the cluster.

    up             whether it accepts and starts jobs
    max_time       maximum run time of one job in seconds; None for no limit
    max_nodes      maximum number of nodes of one job; None for no limit
    gpus_per_node  maximum number of GPUs of one of its nodes
    """

    name: str
    default: bool
    up: bool
    max_time: int | None
    max_nodes: int | None
    nodes: int
    gpus_per_node: int


def nodes(run: Callable[[Sequence[str]], str]) -> list[ComputeNode]:
    """Return the Slurm cluster's nodes as a list of ComputeNode, each once, in the order of one `sinfo --Node` call,
    which `run` executes. Raise the errors that `run` raises. A node's `state` is Slurm's word without the mark. Its
    `reason` was set by an administrator or by Slurm."""
    return node_rows(run([*_SINFO, "--Node", format_option(_NODE_COLUMNS)]))


def partitions(run: Callable[[Sequence[str]], str]) -> list[PartitionRow]:
    """Return the Slurm cluster's partitions, hidden ones too, as a list of PartitionRow from one sinfo call, which
    `run` executes. Raise the errors that `run` raises."""
    return partition_rows(run([*_SINFO, format_option(_PARTITION_COLUMNS)]))


def node_rows(text: str) -> list[ComputeNode]:
    """Parse `text`, the output of `sinfo --Node`, and return a ComputeNode for each node. sinfo prints a node once for
    each of its partitions; these lines are merged, and the node's `groups` names all its partitions."""
    found: dict[str, ComputeNode] = {}
    for value in values_of(text, _NODE_COLUMNS):
        node = _node(value)
        seen = found.get(node.name)
        if seen:
            node = seen._replace(groups=tuple(dict.fromkeys((*seen.groups, *node.groups))))
        found[node.name] = node
    return list(found.values())


def partition_rows(text: str) -> list[PartitionRow]:
    """Parse `text`, sinfo's output about partitions, and return a PartitionRow for each partition. sinfo prints a
    partition once for each kind of node in it; these lines are merged: node counts are added, and the highest number of
    GPUs per node is kept."""
    found: dict[str, PartitionRow] = {}
    for value in values_of(text, _PARTITION_COLUMNS):
        row = _partition(value)
        seen = found.get(row.name)
        if seen:
            most = max(seen.gpus_per_node, row.gpus_per_node)
            row = row._replace(nodes=seen.nodes + row.nodes, gpus_per_node=most)
        found[row.name] = row
    return list(found.values())


def gpus_of(gres: str) -> tuple[str, int]:
    """Parse `gres`, Slurm's text for the GPUs of a node or job, and return the GPU type and the number of GPUs. Forms:
    "gpu:h100:4(S:0-1)", "gpu:4", "gpu:(null):0(IDX:N/A)", "gpu:a:2,gpu:b:1". Several types are joined with commas; the
    type is "" if `gres` names none.

    The GPUs per node that a job requested have the same form: "gpu:2" in 20.11, "gres:gpu:2" and "gres/gpu:2" later.
    """
    types: list[str] = []
    count = 0
    for name, kind, number in re.findall(_GRES, gres):
        if name == "gpu":
            count += int(number)
            if kind and kind != "(null)":
                types.append(kind)
    return ",".join(dict.fromkeys(types)), count


def _node(value: dict[str, str]) -> ComputeNode:
    from worldsize.compute.capabilities import ComputeNode

    state, mark = value["statelong"].lower(), ""
    if state[-1:] in _MARKS:
        state, mark = state[:-1], state[-1]
    usable = state in _USABLE and mark not in _UNUSABLE_MARKS
    cpus_used, _, _, cpus = (number_of(part) for part in (value["cpusstate"] + "///").split("/")[:4])
    memory = number_of(value["memory"])
    gpu_type, gpus = gpus_of(value["gres"])

    def free(total: int, used: int) -> int:
        return max(total - used, 0) if usable else 0

    return ComputeNode(
        name=value["nodelist"],
        state=state,
        note=_MARKS.get(mark, ""),
        usable=usable,
        reason="" if value["reason"] in _NOTHING else value["reason"],
        groups=(value["partitionname"],) if value["partitionname"] else (),
        cpus=cpus,
        cpus_free=free(cpus, cpus_used),
        memory=memory,
        memory_free=free(memory, number_of(value["allocmem"])),
        gpu_type=gpu_type,
        gpus=gpus,
        gpus_free=free(gpus, gpus_of(value["gresused"])[1]),
    )


def _partition(value: dict[str, str]) -> PartitionRow:
    most = value["size"].partition("-")[2] or value["size"]
    return PartitionRow(
        name=value["partition"].rstrip("*"),
        default=value["partition"].endswith("*"),
        up=value["available"] == "up",
        max_time=seconds_of(value["time"]),
        max_nodes=int(most) if most.isdecimal() else None,
        nodes=number_of(value["nodes"]),
        gpus_per_node=gpus_of(value["gres"])[1],
    )
