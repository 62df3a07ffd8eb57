"""The variables in a rank's environment: every launcher's convention at once, as one table.

A script written for torchrun, Azure ML, `srun`, `mpirun` or HPC Pack finds the variables that it knows.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.plan.launchers import launcher_facts
from worldsize.plan.plan import ArrayElement, NodePlan, Plan, RankPlan

LOOPBACK = "127.0.0.1"
"""Address of the head of a run whose nodes are all on this machine."""


class Host(NamedTuple):
    """A node. If the plan requests ports, `address` is where other nodes reach it, and `ports` are the free ports that
    it found."""

    name: str
    cores: int
    address: str = ""
    ports: tuple[int, ...] = ()

    @classmethod
    def of(cls, fields: Sequence[Any]) -> Host:
        """Convert `fields`, a list from JSON with name, cores, address and ports, to a Host."""
        name, cores, address, ports = fields
        return cls(str(name), int(cores), str(address), tuple(map(int, ports)))


class RendezvousResult(NamedTuple):
    """The facts that only the started nodes know: the address and port of the head, and all hosts."""

    address: str
    port: int
    hosts: tuple[Host, ...]


class RankContext(NamedTuple):
    plan: Plan
    world: RendezvousResult
    node: NodePlan
    rank: RankPlan
    run_dir: str
    error_file: str

    @property
    def job_number(self) -> int:
        """An integer id, for conventions that need one: the second in which the run was created, plus the number of the
        element in an array."""
        return int(self.plan.created) + (self.array.element if self.array else 0)

    @property
    def array(self) -> ArrayElement | None:
        return self.plan.array

    @property
    def role_ranks(self) -> int:
        """The number of ranks of the role, from the index of its last rank. If hundreds of agents each counted all
        ranks, they would copy the plan's memory."""
        backwards = (rank for node in reversed(self.plan.nodes) for rank in reversed(node.ranks))
        return next(rank.role_index for rank in backwards if rank.role == self.rank.role) + 1

    @property
    def node_name(self) -> str:
        from worldsize.plan.node_names import node_names

        return node_names([host.name for host in self.world.hosts])[self.node.node_rank]

    @property
    def nodes_cores(self) -> str:
        hosts = self.world.hosts
        return " ".join([str(len(hosts))] + [f"{host.name} {host.cores}" for host in hosts])


class Variable(NamedTuple):
    """A row of the table. `value` returns None if the variable does not apply (and is then not set).

    `scope` is the kind of the value. "rank", "local rank", "node rank": the number of the rank, within its node, of its
    node. "world", "local world", "nodes": the number of ranks, of ranks on its node, of nodes. All other values are the
    same for all ranks of the "run", of a "node" or of a "role", or are the run's place in its "array", or the rank's
    "own".
    """

    name: str
    convention: str
    scope: str
    meaning: str
    value: Callable[[RankContext], object]


def _gloo_controller(context: RankContext) -> object:
    """Return the value of HOROVOD_CONTROLLER: the library by which Horovod's ranks find each other. Under mpirun it is
    None: a Horovod that was built with MPI then uses MPI, and one without it uses gloo."""
    return launcher_facts(context.plan.launcher).horovod_library


def is_slurm_meant(plan: Plan) -> bool:
    """Return whether programs in ranks of this plan may take their Slurm-like variables for a real Slurm job: on Slurm
    itself, whose own job id ranks see, in a batch script, and if the job names the convention "slurm"."""
    return "SLURM_JOB_ID" in plan.kept or plan.batch is not None or "slurm" in plan.conventions


def has_hostfile(plan: Plan) -> bool:
    """Return whether the ranks of this plan, or their launcher, find the nodes by a hostfile, a file that lists
    them."""
    return plan.framework in _HOSTFILE_FRAMEWORKS or launcher_facts(plan.launcher).hostfile


_NUMBERS: Mapping[str, Callable[[RankContext], object]] = {
    "rank": lambda c: c.rank.rank,
    "local rank": lambda c: c.rank.local_rank,
    "node rank": lambda c: c.node.node_rank,
    "world": lambda c: c.plan.world_size,
    "local world": lambda c: len(c.node.ranks),
    "nodes": lambda c: len(c.plan.nodes),
}


def _number_row(name: str, convention: str, scope: str, meaning: str) -> Variable:
    return Variable(name, convention, scope, meaning, _NUMBERS[scope])


def _framework_row(name: str, framework: str, scope: str, meaning: str, function: str) -> Variable:
    """Return the row of the table VARIABLES for the variable `name`, whose value the function named `function` of the
    frameworks' wing computes. The variable is set only in plans of the framework `framework`."""

    def value(context: RankContext) -> object:
        from worldsize.registry import load_module

        if context.plan.framework != framework:
            return None
        values = load_module("wings.frameworks.agent.rank_values", f"the distribution {framework}")
        found: object = getattr(values, function)(context)
        return found

    return Variable(name, framework, scope, meaning, value)


_ENDPOINT = "%s:%d"
_HOSTFILE_FRAMEWORKS = ("mpi", "horovod", "deepspeed")

VARIABLES: tuple[Variable, ...] = (
    Variable("WORLDSIZE_RUN_ID", "worldsize", "run", "the run's id", lambda c: c.plan.run_id),
    Variable("WORLDSIZE_ATTEMPT", "worldsize", "run", "the attempt, from 0", lambda c: c.plan.attempt),
    _number_row("WORLDSIZE_WORLD_SIZE", "worldsize", "world", "ranks in all"),
    _number_row("WORLDSIZE_RANK", "worldsize", "rank", "this rank"),
    _number_row("WORLDSIZE_LOCAL_RANK", "worldsize", "local rank", "this rank within its node"),
    _number_row("WORLDSIZE_LOCAL_WORLD_SIZE", "worldsize", "local world", "ranks on this node"),
    _number_row("WORLDSIZE_NODE_RANK", "worldsize", "node rank", "this node"),
    _number_row("WORLDSIZE_NODE_COUNT", "worldsize", "nodes", "nodes in all"),
    Variable("WORLDSIZE_ROLE", "worldsize", "role", "this rank's role", lambda c: c.rank.role),
    Variable("WORLDSIZE_RUN_DIR", "worldsize", "run", "the run directory", lambda c: c.run_dir),
    Variable("WORLDSIZE_ERROR_FILE", "worldsize", "own", "where the rank's exception is kept", lambda c: c.error_file),
    Variable("WORLDSIZE_INRANK", "worldsize", "run", "what ranks load at start-up, and with torch",
             lambda c: ",".join(c.plan.inrank) or None),
    Variable("WORLDSIZE_VIRTUAL_GPUS", "worldsize", "run", "in a rehearsal: virtual GPUs of each node",
             lambda c: c.plan.rehearsal and c.plan.rehearsal.gpus),
    Variable("WORLDSIZE_HEAD", "worldsize", "run", "in a rehearsal: where its ranks meet",
             lambda c: c.plan.rehearsal and _ENDPOINT % (c.world.address, c.world.port)),
    Variable("WORLDSIZE_ARRAY_INDEX", "worldsize", "array", "in an array: which run, from 0",
             lambda c: c.array and c.array.element),
    Variable("WORLDSIZE_ARRAY_COUNT", "worldsize", "array", "in an array: runs in all",
             lambda c: c.array and c.array.elements),
    Variable("WORLDSIZE_HOSTFILE", "worldsize", "run", "with mpi, horovod, deepspeed: a list of the nodes",
             lambda c: f"{c.run_dir}/attempt-{c.plan.attempt}/hostfile" if has_hostfile(c.plan) else None),
    Variable("WORLDSIZE_DATA_PARALLEL", "worldsize", "run", "with `data_parallel`: split or scale",
             lambda c: c.plan.data_parallel),
    Variable("WORLDSIZE_DEBUGGER", "worldsize", "own", "with `--debugpy`: that the rank waits for a debugger",
             lambda c: 1 if c.plan.debugger == c.rank.rank else None),
    Variable("WORLDSIZE_WATCHDOG", "worldsize", "run", "seconds without a sign of life until the run is looked at",
             lambda c: f"{c.plan.watchdog_timeout:g}" if c.plan.watchdog_timeout else None),
    Variable("MASTER_ADDR", "torch", "run", "the head's address", lambda c: c.world.address),
    Variable("MASTER_PORT", "torch", "run", "a free port on the head, found at start", lambda c: c.world.port),
    _number_row("WORLD_SIZE", "torch", "world", "ranks in all"),
    _number_row("RANK", "torch", "rank", "this rank"),
    _number_row("LOCAL_RANK", "torch", "local rank", "this rank within its node"),
    _number_row("LOCAL_WORLD_SIZE", "torch", "local world", "ranks on this node"),
    _number_row("NODE_RANK", "torch", "node rank", "this node"),
    _number_row("GROUP_RANK", "torch", "node rank", "this node (torchrun's word)"),
    _number_row("GROUP_WORLD_SIZE", "torch", "nodes", "nodes in all (torchrun's word)"),
    Variable("ROLE_NAME", "torch", "role", "this rank's role", lambda c: c.rank.role),
    Variable("ROLE_RANK", "torch", "own", "this rank within its role", lambda c: c.rank.role_index),
    Variable("ROLE_WORLD_SIZE", "torch", "role", "ranks of this role", lambda c: c.role_ranks),
    Variable("TORCHELASTIC_RUN_ID", "torch", "run", "the run's id", lambda c: c.plan.run_id),
    Variable("TORCHELASTIC_RESTART_COUNT", "torch", "run", "the attempt, from 0", lambda c: c.plan.attempt),
    Variable("TORCHELASTIC_MAX_RESTARTS", "torch", "run", "restarts by torchrun",
             lambda c: c.plan.options.get("max_restarts", 0)),
    Variable("TORCHELASTIC_ERROR_FILE", "torch", "own", "where torch's @record writes",
             lambda c: c.error_file + ".torchelastic"),
    Variable("AZUREML_RUN_ID", "azureml", "run", "the run's id", lambda c: c.plan.run_id),
    _number_row("AZUREML_NODE_COUNT", "azureml", "nodes", "nodes in all"),
    _number_row("AZUREML_CR_NODE_RANK", "azureml", "node rank", "this node"),
    Variable("AZUREML_PROCESS_NAME", "azureml", "own", "rank_N", lambda c: f"rank_{c.rank.rank}"),
    Variable("AZ_BATCH_MASTER_NODE", "azureml", "run", "the head's address:port (several nodes)",
             lambda c: _ENDPOINT % (c.world.address, c.world.port) if len(c.plan.nodes) > 1 else None),
    Variable("AZ_BATCHAI_MPI_MASTER_NODE", "azureml", "run", "the head's address (one node)",
             lambda c: c.world.address if len(c.plan.nodes) == 1 else None),
    Variable("AZ_BATCH_HOST_LIST", "azureml", "run", "the nodes, by comma",
             lambda c: ",".join(h.name for h in c.world.hosts)),
    Variable("SLURM_JOB_ID", "slurm", "run", "an integer id of the run", lambda c: c.job_number),
    Variable("SLURM_JOBID", "slurm", "run", "the same, older spelling; on Slurm alone",
             lambda c: c.job_number if is_slurm_meant(c.plan) else None),
    Variable("SLURM_JOB_NAME", "slurm", "run", "`bash`, as in a session without a batch job; on Slurm the job's name",
             lambda c: None if is_slurm_meant(c.plan) else "bash"),
    Variable("SLURM_STEP_ID", "slurm", "run", "the attempt, from 0", lambda c: c.plan.attempt),
    _number_row("SLURM_PROCID", "slurm", "rank", "this rank"),
    _number_row("SLURM_LOCALID", "slurm", "local rank", "this rank within its node"),
    _number_row("SLURM_NODEID", "slurm", "node rank", "this node"),
    _number_row("SLURM_NTASKS", "slurm", "world", "ranks in all"),
    _number_row("SLURM_NPROCS", "slurm", "world", "the same, older spelling"),
    _number_row("SLURM_STEP_NUM_TASKS", "slurm", "world", "ranks in all"),
    _number_row("SLURM_NNODES", "slurm", "nodes", "nodes in all"),
    _number_row("SLURM_JOB_NUM_NODES", "slurm", "nodes", "nodes in all"),
    _number_row("SLURM_STEP_NUM_NODES", "slurm", "nodes", "nodes in all"),
    _number_row("SLURM_NTASKS_PER_NODE", "slurm", "local world", "ranks on this node"),
    Variable("SLURM_GPUS_ON_NODE", "slurm", "node", "GPUs of this node, where their number is known",
             lambda c: (c.plan.rehearsal or c.plan).gpus or None),  # Slurm does not set it if the node has none
    Variable("SLURM_STEP_NODELIST", "slurm", "run", "the nodes, by comma",
             lambda c: ",".join(h.name for h in c.world.hosts)),
    Variable("SLURMD_NODENAME", "slurm", "node", "this node's name", lambda c: c.world.hosts[c.node.node_rank].name),
    Variable("SLURM_ARRAY_JOB_ID", "slurm", "array", "in an array: its integer id",
             lambda c: c.array and int(c.plan.created)),
    Variable("SLURM_ARRAY_TASK_ID", "slurm", "array", "in an array: which run, from 0",
             lambda c: c.array and c.array.element),
    Variable("SLURM_ARRAY_TASK_COUNT", "slurm", "array", "in an array: runs in all",
             lambda c: c.array and c.array.elements),
    Variable("SLURM_ARRAY_TASK_MIN", "slurm", "array", "in an array: its first run, 0", lambda c: c.array and 0),
    Variable("SLURM_ARRAY_TASK_MAX", "slurm", "array", "in an array: its last run",
             lambda c: c.array and c.array.elements - 1),
    _number_row("OMPI_COMM_WORLD_RANK", "openmpi", "rank", "this rank"),
    _number_row("OMPI_COMM_WORLD_SIZE", "openmpi", "world", "ranks in all"),
    _number_row("OMPI_COMM_WORLD_LOCAL_RANK", "openmpi", "local rank", "this rank within its node"),
    _number_row("OMPI_COMM_WORLD_LOCAL_SIZE", "openmpi", "local world", "ranks on this node"),
    _number_row("OMPI_COMM_WORLD_NODE_RANK", "openmpi", "local rank", "this rank within its node"),
    Variable("JAX_COORDINATOR_ADDRESS", "jax", "run", "where rank 0 coordinates: the head's address:port",
             lambda c: _ENDPOINT % (c.world.address, c.world.port)),
    _number_row("JAX_NUM_PROCESSES", "jax", "world", "ranks in all"),
    _number_row("JAX_PROCESS_ID", "jax", "rank", "this rank"),
    _framework_row("JAX_LOCAL_DEVICE_IDS", "jax", "own", "with `type: jax`: this rank's share of the node's GPUs",
                   "jax_devices"),
    Variable("CCP_JOBID", "hpcpack", "run", "an integer id of the run", lambda c: c.job_number),
    Variable("CCP_TASKID", "hpcpack", "node", "this node, from 1", lambda c: c.node.node_rank + 1),
    Variable("CCP_TASKINSTANCEID", "hpcpack", "run", "the attempt, from 0", lambda c: c.plan.attempt),
    Variable("CCP_NODES_CORES", "hpcpack", "run", "count, then name and cores of each node", lambda c: c.nodes_cores),
    Variable("CCP_NUMCPUS", "hpcpack", "node", "cores of this node", lambda c: c.world.hosts[c.node.node_rank].cores),
    _number_row("HOROVOD_RANK", "horovod", "rank", "this rank"),
    _number_row("HOROVOD_SIZE", "horovod", "world", "ranks in all"),
    _number_row("HOROVOD_LOCAL_RANK", "horovod", "local rank", "this rank within its node"),
    _number_row("HOROVOD_LOCAL_SIZE", "horovod", "local world", "ranks on this node"),
    _number_row("HOROVOD_CROSS_RANK", "horovod", "node rank", "this node"),
    _number_row("HOROVOD_CROSS_SIZE", "horovod", "nodes", "nodes in all"),
    Variable("HOROVOD_HOSTNAME", "horovod", "node", "a name that no other node has", lambda c: c.node_name),
    Variable("HOROVOD_CONTROLLER", "horovod", "run", "gloo", _gloo_controller),
    Variable("HOROVOD_CPU_OPERATIONS", "horovod", "run", "gloo", _gloo_controller),
    Variable("HOROVOD_GLOO_RENDEZVOUS_ADDR", "horovod", "run", "the head, where Horovod's rendezvous server runs",
             lambda c: c.world.address),
    Variable("HOROVOD_GLOO_RENDEZVOUS_PORT", "horovod", "run", "its port, found at start",
             lambda c: c.world.hosts[0].ports[0]),
    _framework_row("TF_CONFIG", "tensorflow", "own", "the tasks with their addresses, and this rank's own, as JSON",
                   "tf_config"),
    _framework_row("RAY_ADDRESS", "ray", "run", "where `ray.init()` joins the run's cluster: its head's address:port",
                   "ray_address"),
)  # fmt: skip

CONVENTIONS = ("torch", "azureml", "slurm", "openmpi", "jax", "hpcpack")
"""Conventions that apply unless the job restricts them. The table's other rows belong to a framework, and apply if the
plan names it."""

ON_SLURM_ALONE = ("SLURM_JOBID",)
"""Variables that make a framework assume a Slurm that does not exist. They are set only if `is_slurm_meant`. Each has a
test in tests/frameworks/conventions that fails with it.

SLURM_JOBID  With it, Open MPI's mpirun queries Slurm for its nodes: in a rank's script it started nothing and
             failed with "unable to find SLURM_NODELIST" (test_mpirun_in_ranks.py).

SLURM_JOB_ID makes Lightning log to version_<job id> (test_lightning_ranks.py). It is kept, since plain ranks of JAX
find their place by it. Instead, SLURM_JOB_NAME shows that there is no batch job. By Lightning's own rule a session of
that name is no batch job, and no other program that was tried reads it.
"""


def variable_names(*scopes: str) -> tuple[str, ...]:
    """Return the names of the variables, of all conventions, whose values have one of the `scopes`, such as "rank" or
    "world"."""
    return tuple(variable.name for variable in VARIABLES if variable.scope in scopes)


def convention_prefix(convention: str) -> str:
    """Return the common prefix of the names of all variables of a convention, such as "SLURM" for "slurm"; "" if there
    is none."""
    names = [variable.name for variable in VARIABLES if variable.convention == convention]
    return os.path.commonprefix(names)  # noqa: RUF071  names, not paths
