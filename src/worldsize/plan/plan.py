"""The plan: what every node must start, as one versioned JSON file.

It is a pure value. The agents of all nodes read the same plan and each starts its own node's ranks. A plan with a
`batch` has one agent, which runs the user's batch script.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

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
    """A process of the run. `role_index` counts within its role over all nodes."""

    rank: int
    local_rank: int
    role: str = "worker"
    role_index: int = 0


class NodePlan(NamedTuple):
    node_rank: int
    ranks: tuple[RankPlan, ...]


class Rehearsal(NamedTuple):
    """The settings of a rehearsal. `gpus` is the number of virtual GPUs of each node. `offline` is whether its network
    is cut. `shared` are directories that all nodes see."""

    gpus: int
    offline: bool = False
    shared: tuple[str, ...] = ()


class ArrayElement(NamedTuple):
    """The position of a run among the runs that were submitted together.

    element  its number, from 0
    elements number of elements
    run_id   the array's id
    at_once  maximum number of elements that run at the same time; None: as many as the compute has room for
    """

    element: int
    elements: int
    run_id: str
    at_once: int | None = None


NO_PYTHON = "the command is not one Python with a script"
"""Reason why ranks of other commands start plainly."""


class RankStart(NamedTuple):
    """The way in which a node's ranks start: plainly, or as forks of a process that has imported modules.

    modules    modules to import, in this order; empty: ranks start plainly
    automatic  whether worldsize, and not the job, has chosen them
    reason     why ranks start plainly, or where the modules come from
    """

    modules: tuple[str, ...] = ()
    automatic: bool = True
    reason: str = ""

    @property
    def way(self) -> str:
        return "warm" if self.modules else "plain"


class Plan(NamedTuple):
    """The plan of a run: what every node must start. Ranks are numbered from 0, node by node. `role_index` is a
    rank's number within its role, from 0.

    created     time at which the run was created, in Unix seconds
    argv        command that each rank executes, in `code/`; a job's shell command follows `bash -c`
    launcher    the launcher that starts the ranks, by its name in plan/launchers.py: "direct", each node's agent
                itself, or a program that the agent starts for it; "batch": the first node runs `argv` once, a batch
                script whose `srun` starts the ranks
    options     further options, which only the launcher interprets
    ports       further free ports that each node must find: "rank", one for each of its ranks, "node", one, or ""
    leaders     ranks that end the run once all of them have ended with 0: the others, which would wait forever,
                are then stopped; empty: the run ends once all ranks have ended
    lingering   roles whose ranks get the grace period to end by themselves before that
    environment the job's own variables and its inputs' exact values; they override every convention
    bind        "node": each agent divides the CPUs that it may use among its ranks; "none": CPUs are not assigned
    grace       seconds between TERM and KILL
    silence     seconds without a sign of life after which a node counts as lost
    hang_timeout  seconds of idleness after which the remaining ranks count as hanging, if others ended with 0;
                0: never
    watchdog_timeout  seconds without a sign of life of any rank after which the run is examined; 0: never
    watchdog_action   "report" or "stop": the reaction to a run that hangs
    timeout     seconds after which the run is stopped (limits.timeout), or None
    path        directories put first on PATH
    named       directories and files that ranks execute or load by their names on the submitting machine
    library_path  directories put first on LD_LIBRARY_PATH
    activated   variables of the job's environment, with less priority than every convention; null unsets one
    interpreter  the interpreter for the agents, if the job's environment has a Python; None: the compute's own
    umask       the run directory's
    ranks_umask the ranks', which is that of the shell that submits; None, in older plans: `umask`
    gpus        number of GPUs of each node; None if unknown
    kept        names of the cluster's own variables that ranks see as the node has them, such as its real job id
    setup       shell lines to execute once before the agents start, in order
    array       the run's position among those that were submitted with it; None: it was submitted alone
    batch       settings of the launcher "batch"
    python      the program that torchrun is a module of
    rdzv_endpoint  HOST or HOST:PORT of torchrun's rendezvous; None: on the head, at the run's own port
    shielded    whether INT, which the cluster sends to all processes of a task that it cancels, is for the agent
                alone
    `errands`   whether agents look for commands to execute next to the ranks, for nodes that are not reached otherwise
    local       preparation of each node's own disk before its ranks start; None: nothing
    step        further words for the program that starts the agents on a scheduler's nodes
    data_parallel  "split" or "scale": ranks load the code that makes one training of a script for one process;
                None: nothing
    inrank      packages of `inrank/` that ranks load as they start, and with torch, in this order
    rehearsal   the settings of a rehearsal, which replaces a cluster; None: the run is none
    secrets     names of the job's variables that are secrets, which only its ranks may have
    strict      whether a problem that would be only a warning of a successful run is a failure
    metrics     whether agents sample what the ranks use, and MLflow in the ranks stores its logs in the run
    labels      labels by which people sort runs: `experiment_name`, `description`, `tags`, those that the job sets
    services    by name, programs that the first node starts next to its ranks for people: TensorBoard, JupyterLab
    terminal    whether its only rank gets the terminal, or the streams, of the submitting process, instead of a log
    shm_bytes   bytes of shared memory that the job wants on each node; None: it does not set them
    debugger    the rank that waits for a debugger; None: none does
    notify      the command that the head's agent notifies of the attempt's start, failure and end; "": none
    start       the way in which a node's ranks start
    hidden      keys of this plan that are masked, since they hold secrets (plan/secrets_file.py); empty: none
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
        """The number of nodes that the run can lose and still continue."""
        return len(self.nodes) - int(self.options.get("min_nodes", len(self.nodes)))

    @property
    def agents(self) -> tuple[NodePlan, ...]:
        """The nodes that have an agent: all, or only the first if a batch script's `srun` starts the ranks."""
        return self.nodes if self.batch is None else self.nodes[:1]

    @property
    def prepares_nodes(self) -> bool:
        """Flag for whether nodes have a task to do before their ranks start."""
        return self.local is not None or "check" in self.options or bool(self.start.modules)

    def to_json(self) -> str:
        value = self._asdict()
        value["version"] = PLAN_VERSION
        value["nodes"] = [[list(rank) for rank in node.ranks] for node in self.nodes]
        return json.dumps(value, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Parse `text`, the content of a plan.json, and return the Plan. Raise ValueError for a plan of another
        version, or a text that is no plan."""
        try:
            return cls.from_value(json.loads(text))
        except RecursionError:
            raise ValueError("not a plan: it is nested too deep") from None

    @classmethod
    def from_value(cls, value: Any) -> Plan:
        """Convert `value`, the parsed JSON of a plan.json, to a Plan. Raise ValueError for a plan of another version,
        or a value that is no plan."""
        require_version(value, PLAN_VERSION, "plan")
        try:
            plan = tuple_of(cls, {**value, "nodes": (), "local": None})
            return plan._replace(nodes=_parse_nodes(value["nodes"]), local=_parse_node_disk(value.get("local")))
        except (AttributeError, KeyError, TypeError, IndexError, OverflowError) as error:
            raise ValueError(f"not a plan: {error}") from None


def _parse_nodes(value: Any) -> tuple[NodePlan, ...]:
    """Convert `value`, the entry `nodes` of a plan.json, to NodePlans. The JSON contains only the ranks of each node;
    the nodes are numbered in their order."""
    ranks_of_nodes = (tuple(tuple_of(RankPlan, rank) for rank in ranks) for ranks in value)
    return tuple(NodePlan(node_rank, ranks) for node_rank, ranks in enumerate(ranks_of_nodes))


def _parse_node_disk(value: Any) -> NodeDiskPlan | None:
    if value is None:
        return None
    from worldsize.plan.node_disk import NodeDiskPlan

    return tuple_of(NodeDiskPlan, value)


class BatchPlan(NamedTuple):
    """The settings of a batch script. The first node runs the script once, and the script's `srun` starts the ranks.

    hosts      the names of the virtual nodes; none inside a real allocation, whose environment is not changed
    variables  variables that sbatch would set for the script, on virtual nodes
    cpus       number of CPUs of each virtual node: steps that run at the same time share them
    indices    the job array's indices; none for a script that is no array
    """

    hosts: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    cpus: int = 1
    indices: tuple[int, ...] = ()

    @property
    def virtual(self) -> bool:
        return bool(self.hosts)


def node_major_layout(nodes: int, processes: int, role: str = "worker") -> tuple[NodePlan, ...]:
    """Return the layout of `nodes` equal nodes with `processes` ranks each, as NodePlans: node 0 has ranks 0 to
    processes - 1, node 1 the next ones, and so on. All ranks have the role `role`."""
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
