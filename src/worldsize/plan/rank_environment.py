"""The environment of a rank: that of its node, without the variables that an outer allocation or shell has left, and
with the rank's own variables.

All variables that ranks get are first removed from the node's environment, so that no rank sees two values of one fact.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.plan.plan import WITHOUT_DEVICE, Plan
from worldsize.plan.rank_variables import CONVENTIONS, VARIABLES, RankContext, RendezvousResult

_SCRUBBED_PREFIXES = (
    "SLURM_", "SLURMD_", "SBATCH_", "SRUN_", "PMI_", "PMIX_", "OMPI_COMM_", "OMPI_MCA_ess", "OMPI_MCA_orte_", "PRTE_",
    "HYDRA_", "MPI_LOCAL", "TORCHELASTIC_", "CCP_", "AZ_BATCH", "AZUREML_", "HOROVOD_RANK", "HOROVOD_SIZE",
    "HOROVOD_LOCAL_", "HOROVOD_CROSS_", "WORLDSIZE_",
)  # fmt: skip
_SCRUBBED = frozenset(variable.name for variable in VARIABLES) | {
    "OMPI_UNIVERSE_SIZE", "OMPI_APP_CTX_NUM_PROCS", "OMPI_FIRST_RANKS", "OMPI_NUM_APP_CTX", "PMI_RANK",
}  # fmt: skip
_LEAST_INTEROP = 2
"""Minimum number of these threads. TensorFlow uses one on a single CPU: then a worker that reads a parameter server
would wait for itself."""

MLFLOW_URI = "MLFLOW_TRACKING_URI"
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-._~")

_KEPT = frozenset(("WORLDSIZE_HOME", "WORLDSIZE_SITE_CONFIG"))


def scrub(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment `environ` without the variables that an outer launcher or allocation has set for its ranks
    (RANK, SLURM_*, OMPI_COMM_*, …)."""
    return {
        name: value
        for name, value in environ.items()
        if name in _KEPT or not (name in _SCRUBBED or name.startswith(_SCRUBBED_PREFIXES))
    }


def scrub_rules() -> dict[str, list[str]]:
    """Return the rules by which `scrub` removes variables, as lists of names, prefixes and exceptions that JSON can
    represent, for a program on a node that cannot import worldsize."""
    return {"names": sorted(_SCRUBBED), "prefixes": list(_SCRUBBED_PREFIXES), "kept": sorted(_KEPT)}


def active_conventions(plan: Plan) -> tuple[str, ...]:
    """Return the names of the conventions, such as "torch" and "slurm", whose variables ranks of this plan get:
    worldsize's own and the framework's always, the others as the plan requests, by default all."""
    own = ("worldsize", "torch") if plan.data_parallel else ("worldsize",)
    return (*own, plan.framework, *(plan.conventions or CONVENTIONS))


def convention_variables(context: RankContext) -> dict[str, str]:
    """Return the environment variables that the table VARIABLES defines for the rank in `context`, for the conventions
    that apply to its plan."""
    wanted = active_conventions(context.plan)
    rows = ((row.name, row.value(context)) for row in VARIABLES if row.convention in wanted)
    return {name: str(value) for name, value in rows if value is not None}


def array_variables(plan: Plan) -> dict[str, str]:
    """Return the environment variables that state the run's place in its array, such as SLURM_ARRAY_TASK_ID, which are
    the same for all ranks of the run; empty if it is in none. A run needs them to do the same without its array."""
    node = plan.nodes[0]
    context = RankContext(plan, RendezvousResult("", 0, ()), node, node.ranks[0], "", "")
    wanted = active_conventions(plan)
    rows = [variable for variable in VARIABLES if variable.scope == "array" and variable.convention in wanted]
    return {row.name: str(row.value(context)) for row in rows if plan.array}


def rank_environment(context: RankContext, inherited: Mapping[str, str], threads: int) -> dict[str, str]:
    """Return the whole environment of the rank in `context`, from lowest to highest priority: the environment of its
    node (`inherited`, scrubbed), the variables that the job's environment activates, worldsize's conventions, the job's
    own variables.

    `threads` becomes OMP_NUM_THREADS, and TensorFlow's variables for it, unless the node's environment or the job sets
    them.
    """
    environment = scrub(inherited)
    activate_environment(environment, context.plan)
    environment.setdefault("PYTHONUNBUFFERED", "1")
    environment.setdefault("OMP_NUM_THREADS", str(threads))
    if context.plan.data_parallel:
        environment.setdefault("PYTHONHASHSEED", "0")  # so that sets of texts have the same order on all ranks
    if context.plan.framework == "tensorflow":
        environment.setdefault("TF_NUM_INTRAOP_THREADS", str(threads))
        environment.setdefault("TF_NUM_INTEROP_THREADS", str(max(_LEAST_INTEROP, threads)))
    environment["PATH"] = ":".join((*context.plan.path, environment.get("PATH", "/usr/bin:/bin")))
    environment.update(convention_variables(context))
    environment.update({name: inherited[name] for name in context.plan.kept if name in inherited})
    if context.plan.visible_devices:
        device = _own_device(environment.get("CUDA_VISIBLE_DEVICES"), context.plan.gpus, context.rank.local_rank)
        environment["CUDA_VISIBLE_DEVICES"] = "" if context.rank.role in WITHOUT_DEVICE else device
    environment.update(context.plan.environment)
    if context.plan.metrics:
        _set_mlflow_place(environment, inherited, context.run_dir)
    return environment


def search_environment(plan: Plan, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which programs and Python modules are found as the ranks of a node find them, whose
    environment is `inherited`."""
    environment = scrub(inherited)
    activate_environment(environment, plan)
    environment["PATH"] = ":".join((*plan.path, environment.get("PATH", "/usr/bin:/bin")))
    environment.update(plan.environment)
    return environment


def _set_mlflow_place(environment: dict[str, str], inherited: Mapping[str, str], run_dir: str) -> None:
    """Set the variables in a rank's `environment` that make MLflow store its runs in the run directory, unless another
    place is set. The place of an outer run, in which this one is started, does not count, since it was set for that
    run's ranks. MLflow 3 refuses files without the second variable."""
    outer = inherited.get("WORLDSIZE_RUN_DIR")
    if environment.get(MLFLOW_URI) in (None, mlflow_place(outer) if outer else None):
        environment[MLFLOW_URI] = mlflow_place(run_dir)
        environment.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")


def mlflow_place(run_dir: str) -> str:
    """Return the file URI of the directory `mlruns` in the run directory `run_dir`, in which MLflow in the run's ranks
    stores its logs."""
    path = os.fsencode(run_dir + "/mlruns")
    return "file://" + "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in path)


def activate_environment(environment: dict[str, str], plan: Plan) -> None:
    """Set and remove variables in `environment` as the plan's activated environment (venv, conda, …) states, and extend
    LD_LIBRARY_PATH. The programs of that environment are found by the plan's `path`."""
    for name, value in plan.activated.items():
        if value is None:
            environment.pop(name, None)
        else:
            environment[name] = value
    if plan.library_path:
        before = environment.get("LD_LIBRARY_PATH")
        environment["LD_LIBRARY_PATH"] = ":".join((*plan.library_path, *([before] if before else ())))


def _own_device(visible: str | None, gpus: int | None, local_rank: int) -> str:
    """Return the GPU of a rank, for CUDA_VISIBLE_DEVICES: one of the devices that its node may use (`visible`), which
    are not always 0, 1, …; "" if it may use none.

    Devices are assigned to ranks in turn, so ranks may share them.
    """
    if visible is None:
        return str(local_rank if gpus is None else local_rank % gpus) if gpus != 0 else ""
    devices = visible.split(",")
    return devices[local_rank % len(devices)]
