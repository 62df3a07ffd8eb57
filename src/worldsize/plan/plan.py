"""The plan: what every node must start, as one versioned JSON file.

A pure value. The agents of all nodes read the same plan and each starts its own node's ranks; a plan with a `batch` has
one agent, which runs the user's batch script.
Standard library only: travels inside agent.pyz (Python >= 3.8)."""

from __future__ import annotations

import json
from collections.abc import Mapping

from worldsize.common.json_values import require_version, tuple_of
from worldsize.common.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from worldsize.plan.node_disk import NodeDiskPlan


PLAN_VERSION = 1

WITHOUT_DEVICE = ("ps",)
"""Roles whose ranks compute nothing, and get no device."""


class RankPlan(NamedTuple):
    """One process. `role_index` counts within its role over all nodes."""

    rank: int
    local_rank: int
    role: str = "worker"
    role_index: int = 0


class NodePlan(NamedTuple):
    node_rank: int
    ranks: tuple[RankPlan, ...]


class Rehearsal(NamedTuple):
    """`gpus`: the virtual ones of each node. `offline`: its network is cut. `shared`: directories that all nodes
    see."""

    gpus: int
    offline: bool = False
    shared: tuple[str, ...] = ()


class ArrayElement(NamedTuple):
    """Which one of the runs that were submitted together a run is.

    element  from 0, of so many `elements`
    run_id   the array's
    at_once  how many elements may run at the same time; None: as many as the compute has room for
    """

    element: int
    elements: int
    run_id: str
    at_once: int | None = None


NO_PYTHON = "the command is not one Python with a script"
"""Why ranks of other commands start plainly."""


class RankStart(NamedTuple):
    """How a node's ranks start: plainly, or as forks of a process that has imported modules.

    modules    what is imported, in this order; empty: ranks start plainly
    automatic  the job has not named them
    reason     why ranks start plainly, or where the modules come from
    """

    modules: tuple[str, ...] = ()
    automatic: bool = True
    reason: str = ""

    @property
    def way(self) -> str:
        return "warm" if self.modules else "plain"


class Plan(NamedTuple):
    """What every node must start: ranks numbered from 0, node by node, and `role_index` likewise within each role.

    created     when the run was made, in Unix seconds
    argv        what each rank executes, in `code/`; a job's shell command stands behind `bash -c`
    launcher    what starts the ranks, by its name in plan/launchers.py: "direct", each node's agent itself, or what the
                agent starts in their place; "batch": the first node runs `argv` once, a batch script whose `srun`
                starts the ranks
    options     what the launcher is told beside: its own business
    ports       what else each node is to find free ports for: "rank", one for each of its ranks, "node", one, or ""
    leaders     the ranks that a run is over with, once all of them have ended with 0: the others, which would wait for
                ever, are then ended. None: it is over once all ranks have ended
    lingering   roles whose ranks are given the grace to end by themselves before that
    environment the job's own variables and its inputs' exact values; they win over every convention
    bind        "node": each agent shares out the CPUs that it may use among its ranks; "none": they are left alone
    grace       seconds between TERM and KILL
    silence     seconds without a sign of life after which a node counts as lost
    hang_timeout  seconds of idleness after which the ranks that are left, others having ended with 0, hang; 0: never
    watchdog_timeout  seconds without a sign of life of any rank after which the run is looked at; 0: never
    watchdog_action   "report" or "stop": what is done about a run that hangs
    timeout     seconds after which the run is stopped (limits.timeout), or None
    path        directories put first on PATH
    named       directories and files that ranks execute or load by the name that the submitting machine has for them
    library_path  directories put first on LD_LIBRARY_PATH
    activated   what the job's environment sets: lower than every convention, and null takes one away
    interpreter  what runs the agents, where the job's environment has a Python; None: the compute's own
    umask       the run directory's
    ranks_umask the ranks', which is that of the shell that submits; None, in older plans: `umask`
    gpus        of each node, where they are known
    kept        names of the cluster's own variables that ranks see as the node has them: its real job id, say
    setup       shell lines to execute once before the agents start, in order
    array       the run's place among those that were submitted with it; None: it was submitted alone
    batch       what the launcher "batch" needs
    python      the program that torchrun is a module of
    rdzv_endpoint  HOST or HOST:PORT where torchrun meets; None: on the head, at the run's own port
    shielded    INT, which the cluster sends to all processes of a task that it cancels, is for the agent alone
    errands     agents look for commands to execute beside the ranks: no other way leads to their nodes
    local       what each node gets ready on its own disk before its ranks start; None: nothing
    step        further words for what starts the agents on a scheduler's nodes
    data_parallel  "split" or "scale": ranks load what makes one training of a script for one process; None: nothing
    inrank      packages of `inrank/` that ranks load as they start, and with torch, in this order
    rehearsal   what a rehearsal has in place of a cluster; None: the run is none
    secrets     names of the job's variables that are secrets, which only its ranks are to have
    strict      what else would be a warning beside a success is a failure
    metrics     agents sample what the ranks use, and MLflow in the ranks keeps what it logs in the run
    labels      what people sort runs by: `experiment_name`, `description`, `tags`, those that the job says
    services    by name, what the first node starts beside its ranks for people to look at: TensorBoard, JupyterLab
    terminal    its only rank has the terminal, or the streams, of whoever submits, in place of a log
    shm_bytes   how much shared memory the job wants on each node; None: it does not say
    debugger    the rank that waits for a debugger; None: none does
    notify      the command that the head's agent tells of the attempt's start, failure and end; "": none
    start       how a node's ranks start
    hidden      keys of this plan that are masked, since they hold secrets (plan/secrets_file.py); empty: it is whole
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
    options: Mapping[str, Any] = {}
    ports: str = ""
    leaders: tuple[int, ...] = ()
    lingering: tuple[str, ...] = ()
    conventions: tuple[str, ...] = ()
    threads: int | None = None
    bind: str = "none"
    visible_devices: bool = False
    grace: float = 10.0
    timeout: float | None = None
    hang_timeout: float = 300.0
    watchdog_timeout: float = 0.0
    watchdog_action: str = "report"
    rendezvous_timeout: float = 300.0
    silence: float = 45.0
    path: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    umask: int = 0o077
    ranks_umask: int | None = None
    gpus: int | None = None
    array: ArrayElement | None = None
    setup: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    batch: BatchPlan | None = None
    python: str = "python"
    rdzv_endpoint: str | None = None
    shielded: bool = False
    errands: bool = False
    local: NodeDiskPlan | None = None
    step: tuple[str, ...] = ()
    library_path: tuple[str, ...] = ()
    activated: Mapping[str, str | None] = {}
    interpreter: str | None = None
    data_parallel: str | None = None
    inrank: tuple[str, ...] = ()
    rehearsal: Rehearsal | None = None
    secrets: tuple[str, ...] = ()
    strict: bool = False
    metrics: bool = False
    labels: Mapping[str, Any] = {}
    services: Mapping[str, Mapping[str, Any]] = {}
    shm_bytes: int | None = None
    terminal: bool = False
    debugger: int | None = None
    notify: str = ""
    start: RankStart = RankStart()
    hidden: tuple[str, ...] = ()

    @property
    def world_size(self) -> int:
        return self.nodes[-1].ranks[-1].rank + 1

    @property
    def spare(self) -> int:
        """How many nodes the run can lose and go on."""
        return len(self.nodes) - int(self.options.get("min_nodes", len(self.nodes)))

    @property
    def agents(self) -> tuple[NodePlan, ...]:
        """The nodes that have an agent: all, but the first alone where a batch script's `srun` starts the ranks."""
        return self.nodes if self.batch is None else self.nodes[:1]

    @property
    def prepares_nodes(self) -> bool:
        """Whether nodes have something to do before their ranks start."""
        return self.local is not None or "check" in self.options or bool(self.start.modules)

    def to_json(self) -> str:
        value = self._asdict()
        value["version"] = PLAN_VERSION
        value["nodes"] = [[list(rank) for rank in node.ranks] for node in self.nodes]
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Raises ValueError for a plan of another version, or one that is not a plan."""
        try:
            return cls.from_value(json.loads(text))
        except RecursionError:
            raise ValueError("not a plan: it is nested too deep") from None

    @classmethod
    def from_value(cls, value: Any) -> Plan:
        """Return the plan that a value from JSON holds. Raises as `from_json`."""
        require_version(value, PLAN_VERSION, "plan")
        try:
            plan = tuple_of(cls, {**value, "nodes": (), "local": None})
            return plan._replace(nodes=_parse_nodes(value["nodes"]), local=_parse_node_disk(value.get("local")))
        except (AttributeError, KeyError, TypeError, IndexError, OverflowError) as error:
            raise ValueError(f"not a plan: {error}") from None


def _parse_nodes(value: Any) -> tuple[NodePlan, ...]:
    """Return the nodes of a plan: JSON holds of each its ranks alone."""
    ranks_of_nodes = (tuple(tuple_of(RankPlan, rank) for rank in ranks) for ranks in value)
    return tuple(NodePlan(node_rank, ranks) for node_rank, ranks in enumerate(ranks_of_nodes))


def _parse_node_disk(value: Any) -> NodeDiskPlan | None:
    if value is None:
        return None
    from worldsize.plan.node_disk import NodeDiskPlan

    return tuple_of(NodeDiskPlan, value)


class BatchPlan(NamedTuple):
    """The first node runs the script once; the script's `srun` starts the ranks.

    hosts      the names of the virtual nodes; none inside a real allocation, whose environment is left alone
    variables  what sbatch would set for the script, on virtual nodes
    cpus       of each virtual node: steps that run at the same time share them
    indices    the job array's; none for a script that is no array
    """

    hosts: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    cpus: int = 1
    indices: tuple[int, ...] = ()

    @property
    def virtual(self) -> bool:
        return bool(self.hosts)


def node_major_layout(nodes: int, processes: int, role: str = "worker") -> tuple[NodePlan, ...]:
    """Equal nodes: node 0 has ranks 0 to processes - 1, node 1 the next ones, and so on."""
    return tuple(
        NodePlan(
            node_rank,
            tuple(
                RankPlan(node_rank * processes + local_rank, local_rank, role, node_rank * processes + local_rank)
                for local_rank in range(processes)
            ),
        )
        for node_rank in range(nodes)
    )
