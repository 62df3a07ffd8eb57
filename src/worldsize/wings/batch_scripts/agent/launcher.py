"""A batch script as the one process of a run.

On virtual nodes the script finds the variables that sbatch sets, and worldsize's own srun, scontrol, module and similar
programs before all others on its PATH. In a real allocation the script keeps the variables of that allocation, and its
srun runs the real one.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping

from worldsize.agent.launchers.base import Launcher
from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.posix.processes import find_program
from worldsize.plan.array import slurm_array_variables
from worldsize.plan.plan import BatchPlan, Plan
from worldsize.plan.rank_environment import activate_environment, scrub
from worldsize.plan.run_paths import RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from worldsize.agent.launchers.rank_process import NodeEnd, NodeLaunch
    from worldsize.state.records import Failure, RunWarning

_RANK_ERROR = "rank-%t.json"
"""The error file of a task of the real srun. The hook replaces %t by SLURM_PROCID."""

_ONE_HOST = {
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
}
"""Variables that limit Open MPI to TCP over the loopback interface. Open MPI treats virtual nodes as real ones, and the
memory that it shares within each of them clashes between them."""


class BatchLauncher(Launcher):
    """The launcher of a batch script, which runs on the first node only."""

    def processes(self, launch: NodeLaunch) -> list[Process]:
        environment = batch_environment(launch.plan, launch.paths, launch.environ)
        argv = batch_argv(launch.plan, environment)
        return [Process((0,), argv, environment, launch.paths.rank_log(0), ())]

    def failures(self, end: NodeEnd) -> list[Failure]:
        from worldsize.wings.batch_scripts.agent.script_failures import batch_failure

        return [batch_failure(end.plan, end.paths, end.host, end.ended.code, end.ended.time, end.oom)]

    def warnings(self, plan: Plan, paths: RunPaths, ranks: Sequence[int]) -> Iterator[RunWarning]:
        from worldsize.wings.batch_scripts.agent.script_failures import script_warnings

        return script_warnings(plan, paths)


LAUNCHER = BatchLauncher()


def batch_argv(plan: Plan, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command that executes the batch script of `plan`: the script's interpreter and the script. On virtual
    nodes a shell precedes them, which sets SLURM_TASK_PID to its own pid, and the script keeps that pid. An interpreter
    that is missing is left without the shell, so that the error names it."""
    assert plan.batch is not None
    if not plan.batch.virtual:
        return plan.argv
    try:
        find_program(plan.argv[0], environment)
    except OSError:
        return plan.argv
    return ("/bin/sh", "-c", 'SLURM_TASK_PID=$$; export SLURM_TASK_PID; exec "$@"', "sh", *plan.argv)


def batch_environment(plan: Plan, paths: RunPaths, inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the complete environment of the batch script of `plan`: the `inherited` variables, on virtual nodes those
    that sbatch sets, worldsize's own variables with its programs first on PATH, and the variables of the job."""
    assert plan.batch is not None
    virtual = plan.batch.virtual
    environment = {**scrub(inherited), **_sbatch_environment(plan, plan.batch)} if virtual else dict(inherited)
    environment.update(slurm_array_variables(plan))
    if len(plan.batch.hosts) > 1:
        environment.update({name: environment.get(name, value) for name, value in _ONE_HOST.items()})
    if virtual and os.getuid() == 0:
        environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    activate_environment(environment, plan)
    environment.setdefault("PYTHONUNBUFFERED", "1")
    environment.setdefault("SLURM_KILL_BAD_EXIT", "1")
    environment.update(
        WORLDSIZE_RUN_ID=plan.run_id,
        WORLDSIZE_ATTEMPT=str(plan.attempt),
        WORLDSIZE_RUN_DIR=paths.root,
        WORLDSIZE_BATCH_LOG=paths.rank_log(0),
        WORLDSIZE_ERROR_FILE=paths.rank_error(0) if virtual else os.path.join(paths.errors_dir, _RANK_ERROR),
    )
    if plan.ranks_umask is not None:
        environment["SLURM_UMASK"] = f"{plan.ranks_umask:04o}"  # the steps of the real srun use it
    if plan.inrank:
        environment["WORLDSIZE_INRANK"] = ",".join(plan.inrank)
    if plan.rehearsal:
        environment["WORLDSIZE_VIRTUAL_GPUS"] = str(plan.rehearsal.gpus)
    _prepend(environment, "PYTHONPATH", paths.inrank)
    programs = os.path.join(paths.inrank, "shims" if virtual else "real")
    first = os.pathsep.join((programs, *plan.path))
    _prepend(environment, "PATH", first)
    if "BASH_ENV" in environment:
        environment["WORLDSIZE_BASH_ENV"] = environment["BASH_ENV"]
    environment.update(BASH_ENV=os.path.join(programs, "bash_env"), WORLDSIZE_FIRST_PATH=first)
    if virtual:
        environment["WORLDSIZE_PYTHON"] = sys.executable
    environment.update(SLURM_SUBMIT_DIR=paths.code, SLURM_JOB_NAME=plan.name)
    environment.update(plan.environment)
    return environment


def _prepend(environment: dict[str, str], name: str, first: str) -> None:
    before = environment.get(name) or ("/usr/bin:/bin" if name == "PATH" else "")
    environment[name] = first + os.pathsep + before if before else first


def _sbatch_environment(plan: Plan, batch: BatchPlan) -> dict[str, str]:
    number = str(int(plan.created) + (plan.array.element + 1 if plan.array else 0))
    return {
        **batch.variables,
        "SLURM_JOB_ID": number,
        "SLURM_JOBID": number,
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_GID": str(os.getgid()),
        "SLURM_JOB_USER": _user(),
        "SLURM_SUBMIT_HOST": socket.gethostname(),
    }


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
