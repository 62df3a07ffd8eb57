"""Which processes each node starts, and what tells them who they are: the product's tables of environment variables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

PORT = 6105
"""The port of ranks' rendezvous. Jobs of one double have addresses of their own, so it may be fixed."""

MOST = 64
"""The most processes of one kind, or of one node, that the double starts."""

_KINDS = ("pytorch", "mpi", "tensorflow")


class Rank(NamedTuple):
    """A process: which one, on which node, what its log is called, and its variables beside those of all."""

    rank: int
    node: int
    log: str
    environ: Mapping[str, str]


def check_distribution(distribution: Mapping[str, Any]) -> None:
    """Raises ValueError if the double does not run it."""
    kind = str(distribution.get("distributionType", "pytorch")).lower()
    if kind not in _KINDS:
        raise ValueError("distributionType: the double runs %s, not %s." % (", ".join(_KINDS), kind))
    for name in ("processCountPerInstance", "workerCount", "parameterServerCount"):
        count = distribution.get(name)
        if count is not None and (not isinstance(count, int) or not 0 <= count <= MOST):
            raise ValueError("%s: %r is not a number of processes up to %d." % (name, count, MOST))


def ranks_of(distribution: Mapping[str, Any], addresses: Sequence[str]) -> list[Rank]:
    """All of a job on nodes with these addresses, in their order; without a distribution one for each node."""
    kind = str(distribution.get("distributionType", "")).lower()
    if kind == "tensorflow":
        return _tensorflow(distribution, addresses)
    per_node = int(distribution.get("processCountPerInstance") or 1) if kind else 1
    size = per_node * len(addresses)
    found = []
    for rank in range(size):
        node, local = divmod(rank, per_node)
        environ = {}
        if kind == "pytorch":
            environ = _pytorch(rank, size, local, per_node, node, addresses[0])
        elif kind == "mpi":
            environ = _mpi(rank, size, local, per_node, node, addresses)
        found.append(Rank(rank, node, log_name(rank, size), environ))
    return found


def log_name(rank: int, size: int, role: str = "") -> str:
    """`std_log.txt` for one process; else numbers of one width, so that the first sorts first."""
    if size == 1:
        return "user_logs/std_log.txt"
    return "user_logs/std_log_process_%0*d%s.txt" % (len(str(size - 1)), rank, role)


def _pytorch(rank: int, size: int, local: int, per_node: int, node: int, first: str) -> dict[str, str]:
    return {
        "MASTER_ADDR": first,
        "MASTER_PORT": str(PORT),
        "WORLD_SIZE": str(size),
        "RANK": str(rank),
        "LOCAL_RANK": str(local),
        "LOCAL_WORLD_SIZE": str(per_node),
        "NODE_RANK": str(node),
    }


def _mpi(rank: int, size: int, local: int, per_node: int, node: int, addresses: Sequence[str]) -> dict[str, str]:
    if len(addresses) > 1:
        head = {"AZ_BATCH_MASTER_NODE": "%s:%d" % (addresses[0], PORT), "AZ_BATCH_HOST_LIST": ",".join(addresses)}
    else:
        head = {"AZ_BATCHAI_MPI_MASTER_NODE": "localhost"}
    return {
        **head,
        "OMPI_COMM_WORLD_RANK": str(rank),
        "OMPI_COMM_WORLD_SIZE": str(size),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(local),
        "OMPI_COMM_WORLD_LOCAL_SIZE": str(per_node),
        "OMPI_COMM_WORLD_NODE_RANK": str(node),
    }


def _tensorflow(distribution: Mapping[str, Any], addresses: Sequence[str]) -> list[Rank]:
    """Workers first, then parameter servers, each round the nodes."""
    workers = int(distribution.get("workerCount") or len(addresses))
    servers = int(distribution.get("parameterServerCount") or 0)
    tasks = [("worker", index) for index in range(workers)] + [("ps", index) for index in range(servers)]
    places = [(index % len(addresses), PORT + index) for index in (*range(workers), *range(servers))]
    ports = [
        (node, port + (workers if task[0] == "ps" else 0)) for task, (node, port) in zip(tasks, places, strict=True)
    ]
    cluster: dict[str, list[str]] = {}
    for (kind, _), (node, port) in zip(tasks, ports, strict=True):
        cluster.setdefault(kind, []).append("%s:%d" % (addresses[node], port))
    found = []
    for rank, ((kind, index), (node, _)) in enumerate(zip(tasks, ports, strict=True)):
        config = {"cluster": cluster, "task": {"type": kind, "index": index}, "environment": "cloud"}
        log = log_name(index, len(tasks), "_ps" if kind == "ps" else "")
        found.append(Rank(rank, node, log, {"TF_CONFIG": json.dumps(config)}))
    return found
