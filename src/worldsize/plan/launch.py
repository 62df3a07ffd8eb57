"""The plan: what every node must start, as one versioned JSON file.

A pure value. The agents of all nodes read the same plan and each starts its own node's ranks.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
from typing import Any, Mapping, NamedTuple

PLAN_VERSION = 1


class RankPlan(NamedTuple):
    """One process: `role_index` counts within its role over all nodes."""

    rank: int
    local_rank: int
    role: str = "worker"
    role_index: int = 0


class NodePlan(NamedTuple):
    node_rank: int
    ranks: tuple[RankPlan, ...]


class Plan(NamedTuple):
    """What every node must start: ranks numbered from 0, node by node, and `role_index` likewise within each role.

    created     when the run was made, in Unix seconds
    argv        what each rank executes, in `code/`; a job's shell command stands behind `bash -c`
    launcher    "direct", or "torchrun": one torch.distributed.run per node, which starts the node's ranks
    environment the job's own variables and its inputs' exact values; they win over every convention
    binding     the CPUs of each local rank of a node, where the agent is to bind them; empty: left alone
    grace       seconds between TERM and KILL
    silence     seconds without a sign of life after which a node counts as lost
    timeout     seconds after which the run is stopped (limits.timeout), or None
    path        directories put first on PATH
    umask       the ranks' and the run directory's
    gpus        of each node, where they are known
    """

    run_id: str
    name: str
    compute: str
    created: float
    attempt: int
    nodes: tuple[NodePlan, ...]
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    framework: str = "none"
    launcher: str = "direct"
    conventions: tuple[str, ...] = ()
    threads: int | None = None
    binding: tuple[tuple[int, ...], ...] = ()
    visible_devices: bool = False
    grace: float = 10.0
    timeout: float | None = None
    rendezvous_timeout: float = 300.0
    silence: float = 45.0
    path: tuple[str, ...] = ()
    umask: int = 0o077
    gpus: int | None = None

    @property
    def world_size(self) -> int:
        return self.nodes[-1].ranks[-1].rank + 1

    def to_json(self) -> str:
        value = self._asdict()
        value["version"] = PLAN_VERSION
        value["nodes"] = [[list(rank) for rank in node.ranks] for node in self.nodes]
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Raises ValueError for a plan of another version, or one that is not a plan."""
        value = json.loads(text)
        version = value.pop("version", None) if isinstance(value, dict) else None
        if version != PLAN_VERSION:
            raise ValueError("plan version %r, this worldsize reads version %d" % (version, PLAN_VERSION))
        try:
            return cls(**_typed(value))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError("not a plan: %s" % error) from None


def _typed(value: dict[str, Any]) -> dict[str, Any]:
    """JSON's lists as the tuples that they were."""
    nodes = tuple(
        NodePlan(node_rank, tuple(RankPlan(*rank) for rank in ranks)) for node_rank, ranks in enumerate(value["nodes"])
    )
    lists = {name: tuple(value[name]) for name in ("argv", "conventions", "path")}
    return {**value, **lists, "nodes": nodes, "binding": tuple(tuple(cpus) for cpus in value["binding"])}
