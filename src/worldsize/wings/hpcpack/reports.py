"""Reports of an HPC Pack cluster: its nodes, in both generations of its interface, and what runs have used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from worldsize.compute.base import Handle
from worldsize.compute.capabilities import ComputeNode, Usage
from worldsize.errors import SubmitRejected, WorldsizeError
from worldsize.plan.hostlist import is_node_name
from worldsize.wings.hpcpack.head.client import HeadNodeClient
from worldsize.wings.hpcpack.head.errors import MissingResource
from worldsize.wings.hpcpack.head.wire import Properties, items_of, number_of, time_of
from worldsize.wings.hpcpack.observe import jobs_of
from worldsize.wings.hpcpack.states import unusable_reason

_HOUR = 3600.0


def nodes(head: HeadNodeClient, gpus: int | None = None, metrics: bool = True) -> list[ComputeNode]:
    """Return every node of the HPC Pack cluster. `gpus` is the number of GPUs in each node, which no head node reports.
    With `metrics`, one more request adds the current use of the nodes. All properties are requested, because HPC Pack
    2016 refuses names that it does not know. Raise SubmitRejected if the answer is not a list of nodes. Errors of the
    requests are raised as they are."""
    try:
        found = None if head.access.generation == "2016" else _read_nodes_2019(head)
        used = _metrics(head) if metrics and found is not None else {}
        rows: Iterable[Mapping[str, Any]] = head.read_rows("/nodes") if found is None else found
        return [_node(row, used.get(str(row.get("name")).lower(), {}), gpus) for row in rows]
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        raise SubmitRejected(f"the answer is not understood: {error}", f"nodes of {head.access.url}") from None


def usages(head: HeadNodeClient, handles: Sequence[Handle]) -> list[Usage | None]:
    """Return what the HPC Pack job of each handle has used (nodes, seconds, GPU-hours); None for a job that has not
    ended. HPC Pack records only time, but neither GPUs nor the use by processes: the number of GPUs is taken from the
    handle. Errors of the requests are raised as they are."""
    found = jobs_of(head, [int(handle["job"]) for handle in handles])
    return [_usage(found[int(handle["job"])], handle) for handle in handles]


def _usage(row: Properties | None, handle: Handle) -> Usage | None:
    began, ended = (time_of(row.get(name, "")) for name in ("starttime", "endtime")) if row else (None, None)
    if began is None or ended is None or ended < began:
        return None
    count, gpus = int(handle.get("nodes", 1)), handle.get("gpus")
    hours = None if gpus is None else gpus * count * (ended - began) / _HOUR
    return Usage(count, int(ended - began), None if gpus is None else gpus * count, hours, None, None)


def _read_nodes_2019(head: HeadNodeClient) -> list[dict[str, Any]] | None:
    """Return the properties of all nodes, by name in lower case, from the list of HPC Pack 2019; None if the head knows
    no such list and its generation is not configured as 2019. Raise SubmitRejected if the answer is not a list."""
    try:
        found = head.get("/cluster/nodes")
    except MissingResource:
        if head.access.generation == "2019":
            raise
        return None
    if not isinstance(found, list):
        raise SubmitRejected(f"a list of nodes was expected, and not {found!r:.60}", "GET /cluster/nodes")
    return [{str(name).lower(): value for name, value in each.items()} for each in found]


def _node(said: Mapping[str, Any], used: Mapping[str, float], gpus: int | None) -> ComputeNode:
    """Return the ComputeNode for a node of the cluster from the properties `said` that the head node sent. `used`
    contains the node's metrics. Raise ValueError if the name is not a valid host name."""
    name = str(said.get("name", ""))
    if not is_node_name(name):
        raise ValueError(f"{name!r:.80} is not a node's name")
    state, health = str(said.get("state") or "Unknown"), str(said.get("health") or "")
    if not health and str(said.get("reachable", "")).lower() == "false":
        health = "Error"
    why = unusable_reason(state, health)
    cpus, load, busy = _number(said, "cores", "numberofcores"), used.get("hpccpuusage"), used.get("hpccoresinuse")
    free = None if busy is None or cpus is None else max(0, cpus - int(busy))
    return ComputeNode(
        name=name,
        state=state,
        note="" if health in ("", "OK") else health,
        usable=not why,
        reason=why,
        groups=tuple(items_of(said.get("groups", said.get("nodegroups")) or ())),
        cpus=cpus,
        cpus_free=0 if why and free is not None else free,
        memory=_number(said, "memorysize"),
        gpus=gpus,
        load=None if load is None else round(load, 1),
    )


def _number(said: Mapping[str, Any], *names: str) -> int | None:
    value = next((said[name] for name in names if said.get(name) not in (None, "")), None)
    return int(value) if isinstance(value, (int, float)) else number_of(str(value)) if value is not None else None


def _metrics(head: HeadNodeClient) -> dict[str, dict[str, float]]:
    """Return the metrics of all nodes (CPU use and cores in use), by node name in lower case. Return {} if the head has
    none, or its answer is not understood: a list of nodes is complete without metrics."""
    try:
        found = head.get("/cluster/nodes/metrics", metricNames="HPCCpuUsage,HPCCoresInUse")
        return {
            str(each["NodeName"]).lower(): {str(name).lower(): float(value) for name, value in each["Metrics"].items()}
            for each in found
        }
    except (WorldsizeError, KeyError, TypeError, ValueError, AttributeError):
        return {}
