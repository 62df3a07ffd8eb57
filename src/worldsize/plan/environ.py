"""The environment of a rank: every launcher's convention at once, as one table.

A script written for torchrun, Azure ML, `srun`, `mpirun` or HPC Pack finds the variables that it knows. What an outer
allocation or shell left behind of the same names is scrubbed first, so that no rank sees two truths.
Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from typing import Callable, Mapping, NamedTuple

from worldsize.plan.launch import NodePlan, Plan, RankPlan


class Host(NamedTuple):
    name: str
    cores: int


class World(NamedTuple):
    """What only the started nodes know: who is the head, where it listens, who the others are."""

    address: str
    port: int
    hosts: tuple[Host, ...]


class RankContext(NamedTuple):
    plan: Plan
    world: World
    node: NodePlan
    rank: RankPlan
    run_dir: str
    error_file: str

    @property
    def job_number(self) -> int:
        """An integer id, for the conventions that want one: the second in which the run was made."""
        return int(self.plan.created)

    @property
    def role_ranks(self) -> int:
        """From the last one's index: hundreds of agents that each count all ranks would copy the plan's memory."""
        backwards = (rank for node in reversed(self.plan.nodes) for rank in reversed(node.ranks))
        return next(rank.role_index for rank in backwards if rank.role == self.rank.role) + 1

    @property
    def nodes_cores(self) -> str:
        hosts = self.world.hosts
        return " ".join([str(len(hosts))] + ["%s %d" % host for host in hosts])


class Variable(NamedTuple):
    """One row: `value` gives None where the variable does not apply (and is then not set)."""

    name: str
    convention: str
    meaning: str
    value: Callable[[RankContext], object]


def _several_nodes(context: RankContext, value: object) -> object:
    return value if len(context.plan.nodes) > 1 else None


def _one_node(context: RankContext, value: object) -> object:
    return value if len(context.plan.nodes) == 1 else None


_ENDPOINT = "%s:%d"

VARIABLES: tuple[Variable, ...] = (
    Variable("WORLDSIZE_RUN_ID", "worldsize", "the run's id", lambda c: c.plan.run_id),
    Variable("WORLDSIZE_ATTEMPT", "worldsize", "the attempt, from 0", lambda c: c.plan.attempt),
    Variable("WORLDSIZE_WORLD_SIZE", "worldsize", "ranks in all", lambda c: c.plan.world_size),
    Variable("WORLDSIZE_RANK", "worldsize", "this rank", lambda c: c.rank.rank),
    Variable("WORLDSIZE_LOCAL_RANK", "worldsize", "this rank within its node", lambda c: c.rank.local_rank),
    Variable("WORLDSIZE_LOCAL_WORLD_SIZE", "worldsize", "ranks on this node", lambda c: len(c.node.ranks)),
    Variable("WORLDSIZE_NODE_RANK", "worldsize", "this node", lambda c: c.node.node_rank),
    Variable("WORLDSIZE_NODE_COUNT", "worldsize", "nodes in all", lambda c: len(c.plan.nodes)),
    Variable("WORLDSIZE_ROLE", "worldsize", "this rank's role", lambda c: c.rank.role),
    Variable("WORLDSIZE_RUN_DIR", "worldsize", "the run directory", lambda c: c.run_dir),
    Variable("WORLDSIZE_ERROR_FILE", "worldsize", "where the rank's exception is kept", lambda c: c.error_file),
    Variable("MASTER_ADDR", "torch", "the head's address", lambda c: c.world.address),
    Variable("MASTER_PORT", "torch", "a free port on the head, found at start", lambda c: c.world.port),
    Variable("WORLD_SIZE", "torch", "ranks in all", lambda c: c.plan.world_size),
    Variable("RANK", "torch", "this rank", lambda c: c.rank.rank),
    Variable("LOCAL_RANK", "torch", "this rank within its node", lambda c: c.rank.local_rank),
    Variable("LOCAL_WORLD_SIZE", "torch", "ranks on this node", lambda c: len(c.node.ranks)),
    Variable("NODE_RANK", "torch", "this node", lambda c: c.node.node_rank),
    Variable("GROUP_RANK", "torch", "this node (torchrun's word)", lambda c: c.node.node_rank),
    Variable("GROUP_WORLD_SIZE", "torch", "nodes in all (torchrun's word)", lambda c: len(c.plan.nodes)),
    Variable("ROLE_NAME", "torch", "this rank's role", lambda c: c.rank.role),
    Variable("ROLE_RANK", "torch", "this rank within its role", lambda c: c.rank.role_index),
    Variable("ROLE_WORLD_SIZE", "torch", "ranks of this role", lambda c: c.role_ranks),
    Variable("TORCHELASTIC_RUN_ID", "torch", "the run's id", lambda c: c.plan.run_id),
    Variable("TORCHELASTIC_RESTART_COUNT", "torch", "the attempt, from 0", lambda c: c.plan.attempt),
    Variable("TORCHELASTIC_MAX_RESTARTS", "torch", "restarts by torchrun: none", lambda c: 0),
    Variable(
        "TORCHELASTIC_ERROR_FILE", "torch", "where torch's @record writes", lambda c: c.error_file + ".torchelastic"
    ),
    Variable("AZUREML_RUN_ID", "azureml", "the run's id", lambda c: c.plan.run_id),
    Variable("AZUREML_NODE_COUNT", "azureml", "nodes in all", lambda c: len(c.plan.nodes)),
    Variable("AZUREML_CR_NODE_RANK", "azureml", "this node", lambda c: c.node.node_rank),
    Variable("AZUREML_PROCESS_NAME", "azureml", "rank_N", lambda c: "rank_%d" % c.rank.rank),
    Variable(
        "AZ_BATCH_MASTER_NODE",
        "azureml",
        "the head's address:port (several nodes)",
        lambda c: _several_nodes(c, _ENDPOINT % (c.world.address, c.world.port)),
    ),
    Variable(
        "AZ_BATCHAI_MPI_MASTER_NODE",
        "azureml",
        "the head's address (one node)",
        lambda c: _one_node(c, c.world.address),
    ),
    Variable(
        "AZ_BATCH_HOST_LIST", "azureml", "the nodes, by comma", lambda c: ",".join(h.name for h in c.world.hosts)
    ),
    Variable("SLURM_JOB_ID", "slurm", "an integer id of the run", lambda c: c.job_number),
    Variable("SLURM_JOBID", "slurm", "the same, older spelling", lambda c: c.job_number),
    Variable("SLURM_STEP_ID", "slurm", "the attempt, from 0", lambda c: c.plan.attempt),
    Variable("SLURM_PROCID", "slurm", "this rank", lambda c: c.rank.rank),
    Variable("SLURM_LOCALID", "slurm", "this rank within its node", lambda c: c.rank.local_rank),
    Variable("SLURM_NODEID", "slurm", "this node", lambda c: c.node.node_rank),
    Variable("SLURM_NTASKS", "slurm", "ranks in all", lambda c: c.plan.world_size),
    Variable("SLURM_NPROCS", "slurm", "the same, older spelling", lambda c: c.plan.world_size),
    Variable("SLURM_STEP_NUM_TASKS", "slurm", "ranks in all", lambda c: c.plan.world_size),
    Variable("SLURM_NNODES", "slurm", "nodes in all", lambda c: len(c.plan.nodes)),
    Variable("SLURM_JOB_NUM_NODES", "slurm", "nodes in all", lambda c: len(c.plan.nodes)),
    Variable("SLURM_STEP_NUM_NODES", "slurm", "nodes in all", lambda c: len(c.plan.nodes)),
    Variable("SLURM_NTASKS_PER_NODE", "slurm", "ranks on this node", lambda c: len(c.node.ranks)),
    Variable(
        "SLURM_STEP_NODELIST", "slurm", "the nodes, by comma", lambda c: ",".join(h.name for h in c.world.hosts)
    ),
    Variable("SLURMD_NODENAME", "slurm", "this node's name", lambda c: c.world.hosts[c.node.node_rank].name),
    Variable("OMPI_COMM_WORLD_RANK", "openmpi", "this rank", lambda c: c.rank.rank),
    Variable("OMPI_COMM_WORLD_SIZE", "openmpi", "ranks in all", lambda c: c.plan.world_size),
    Variable("OMPI_COMM_WORLD_LOCAL_RANK", "openmpi", "this rank within its node", lambda c: c.rank.local_rank),
    Variable("OMPI_COMM_WORLD_LOCAL_SIZE", "openmpi", "ranks on this node", lambda c: len(c.node.ranks)),
    Variable("OMPI_COMM_WORLD_NODE_RANK", "openmpi", "this rank within its node", lambda c: c.rank.local_rank),
    Variable("CCP_JOBID", "hpcpack", "an integer id of the run", lambda c: c.job_number),
    Variable("CCP_TASKID", "hpcpack", "this node, from 1", lambda c: c.node.node_rank + 1),
    Variable("CCP_TASKINSTANCEID", "hpcpack", "the attempt, from 0", lambda c: c.plan.attempt),
    Variable("CCP_NODES_CORES", "hpcpack", "count, then name and cores of each node", lambda c: c.nodes_cores),
    Variable(
        "CCP_NUMCPUS", "hpcpack", "cores of this node", lambda c: c.world.hosts[c.node.node_rank].cores
    ),
)  # fmt: skip

CONVENTIONS = ("torch", "azureml", "slurm", "openmpi", "hpcpack")

_SCRUBBED_PREFIXES = (
    "SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "PMI_", "PMIX_", "OMPI_COMM_", "OMPI_MCA_ess", "OMPI_MCA_orte_", "PRTE_",
    "HYDRA_", "MPI_LOCAL", "TORCHELASTIC_", "CCP_", "AZ_BATCH", "AZUREML_", "HOROVOD_RANK", "HOROVOD_SIZE",
    "HOROVOD_LOCAL_", "HOROVOD_CROSS_", "WORLDSIZE_",
)  # fmt: skip
_SCRUBBED = frozenset(variable.name for variable in VARIABLES) | {
    "TF_CONFIG", "OMPI_UNIVERSE_SIZE", "OMPI_APP_CTX_NUM_PROCS", "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX", "PMI_RANK",
}  # fmt: skip
_KEPT = frozenset(("WORLDSIZE_HOME", "WORLDSIZE_SITE_CONFIG"))


def scrub(environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` without what an outer launcher or allocation set for ranks and schedulers."""
    return {
        name: value
        for name, value in environ.items()
        if name in _KEPT or not (name in _SCRUBBED or name.startswith(_SCRUBBED_PREFIXES))
    }


def convention_variables(context: RankContext) -> dict[str, str]:
    """The table's rows for one rank: worldsize's own always, the others as the plan asks."""
    wanted = context.plan.conventions or CONVENTIONS
    rows = {}
    for variable in VARIABLES:
        if variable.convention == "worldsize" or variable.convention in wanted:
            value = variable.value(context)
            if value is not None:
                rows[variable.name] = str(value)
    return rows


def rank_environment(context: RankContext, inherited: Mapping[str, str], threads: int) -> dict[str, str]:
    """The whole environment of one rank, lowest to highest: what the node has (scrubbed), our conventions, the job's.

    `threads` becomes OMP_NUM_THREADS unless the node's environment or the job names one.
    """
    environment = scrub(inherited)
    environment.setdefault("PYTHONUNBUFFERED", "1")
    environment.setdefault("OMP_NUM_THREADS", str(threads))
    environment["PATH"] = ":".join((*context.plan.path, environment.get("PATH", "/usr/bin:/bin")))
    environment.update(convention_variables(context))
    if context.plan.visible_devices:
        device = _own_device(environment.get("CUDA_VISIBLE_DEVICES"), context.plan.gpus, context.rank.local_rank)
        environment["CUDA_VISIBLE_DEVICES"] = device
    environment.update(context.plan.environment)
    return environment


def _own_device(visible: str | None, gpus: int | None, local_rank: int) -> str:
    """One of the devices that the node was given, which are not always 0, 1, …; none where it was given none.

    Ranks that share take turns.
    """
    if visible is None:
        return str(local_rank if gpus is None else local_rank % gpus) if gpus != 0 else ""
    devices = visible.split(",")
    return devices[local_rank % len(devices)]
