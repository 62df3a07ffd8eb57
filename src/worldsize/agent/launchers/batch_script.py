"""A batch script as the one process of a run, and whose fault it was when it fails.

On virtual nodes it finds the variables that sbatch sets, and our srun, scontrol, module and the like before all others
on its PATH. In a real allocation its environment is left alone, and its srun is the real one.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping

from worldsize.agent.launchers.base import Launcher
from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.launchers.srun_report import EndedTask, ended_tasks, first_failed_task
from worldsize.agent.outcome.rank_failure import rank_failure, read_error
from worldsize.agent.posix.processes import find_program
from worldsize.agent.virtual_srun.step_records import last_failure
from worldsize.common.atomic_files import read_tail
from worldsize.plan.array import slurm_array_variables
from worldsize.plan.plan import BatchPlan, Plan
from worldsize.plan.rank_environment import activate_environment, scrub
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.slurm.hostlist import expand_hostlist
from worldsize.state.exit_records import signal_name
from worldsize.state.first_failure import first_failure
from worldsize.state.records import Failure, Reason

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from worldsize.agent.launchers.rank_process import NodeEnd, NodeLaunch

_RANK_ERROR = "rank-%t.json"
"""Of a task of the real srun: the hook puts SLURM_PROCID in the place of %t."""

_LOG_TAIL_BYTES = 64 << 10
"""Bytes at the end of a script's log in which srun tells of its last step."""

_STOP_CODES = (130, 137, 143)
"""A script that ends its own step by a signal means to."""

_ONE_HOST = {
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
}
"""Open MPI takes virtual nodes for real ones: memory that it shares within each of them clashes between them."""


class BatchLauncher(Launcher):
    """The batch script, which runs on the first node alone."""

    def processes(self, launch: NodeLaunch) -> list[Process]:
        environment = batch_environment(launch.plan, launch.paths, launch.environ)
        argv = batch_argv(launch.plan, environment)
        return [Process((0,), argv, environment, launch.paths.rank_log(0), ())]

    def failures(self, end: NodeEnd) -> list[Failure]:
        return [batch_failure(end.plan, end.paths, end.host, end.ended.code, end.ended.time, end.oom)]


LAUNCHER = BatchLauncher()


def batch_argv(plan: Plan, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The script's interpreter and the script; on virtual nodes after a shell that sets SLURM_TASK_PID to its own
    number, which the script keeps. A missing interpreter stays alone, so that the failure names it."""
    assert plan.batch is not None
    if not plan.batch.virtual:
        return plan.argv
    try:
        find_program(plan.argv[0], environment)
    except OSError:
        return plan.argv
    return ("/bin/sh", "-c", 'SLURM_TASK_PID=$$; export SLURM_TASK_PID; exec "$@"', "sh", *plan.argv)


def batch_environment(plan: Plan, paths: RunPaths, inherited: Mapping[str, str]) -> dict[str, str]:
    """The script's whole environment."""
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
        environment["SLURM_UMASK"] = f"{plan.ranks_umask:04o}"  # the steps of the real srun have it
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


def batch_failure(plan: Plan, paths: RunPaths, host: str, code: int, ended: float, oom: bool) -> Failure:
    """The first failure of a script that ended with `code`: its last step's, where that step is why it failed."""
    failure = last_failure(paths) or _worst_exception(plan, paths, host, code, ended, oom)
    failure = failure or _first_task_failure(plan, paths, code, ended, oom)
    if failure is not None:
        return failure
    name = signal_name(code)
    how = f"was killed by signal {code - 128} ({name})" if name else f"ended with code {code}"
    reason = Reason.SIGNAL if name else Reason.EXIT_CODE
    if oom and code == 137:
        reason = Reason.OUT_OF_MEMORY
    return Failure(reason, f"the batch script {how}", 0, 0, code, ended)


def _worst_exception(plan: Plan, paths: RunPaths, host: str, code: int, ended: float, oom: bool) -> Failure | None:
    """The first failure by the exceptions that ranks have left, for a script without a record of its steps. The code of
    an uncaught exception is 1; the script's may be that of the ranks that srun ended for it."""
    names = _node_names(plan)
    nodes = {rank.rank: node.node_rank for node in plan.nodes for rank in node.ranks}
    own = code if code < 128 else 1
    found = []
    for rank, error in rank_errors(paths):
        node = nodes.get(rank, 0)
        name = names[node] if node < len(names) else host
        found.append(rank_failure(rank, node, name, own, ended, error, oom))
    return first_failure(found)


def _first_task_failure(plan: Plan, paths: RunPaths, code: int, ended: float, oom: bool) -> Failure | None:
    """The failure that the real srun reports of the script's last step, whose tasks left no exceptions."""
    task = None if plan.batch is None or plan.batch.virtual else first_failed_task(_last_lines(paths.rank_log(0)), code)
    if task is None:
        return None
    names = _node_names(plan)
    host = next(iter(_nodes_of(task.host)), task.host)
    node = names.index(host) if host in names else 0
    return rank_failure(task.task, node, host, task.code, ended, None, oom)


def failed_tasks(plan: Plan, paths: RunPaths) -> list[EndedTask]:
    """The tasks that failed by themselves, as the real srun has said in the script's output; none on virtual nodes."""
    if plan.batch is None or plan.batch.virtual:
        return []
    return [task for task in ended_tasks(_last_lines(paths.rank_log(0))) if task.code not in _STOP_CODES]


def _last_lines(path: str) -> list[str]:
    return read_tail(path, _LOG_TAIL_BYTES).decode("utf-8", "replace").splitlines()


def _node_names(plan: Plan) -> list[str]:
    assert plan.batch is not None
    if plan.batch.virtual:
        return list(plan.batch.hosts)
    return _nodes_of(os.environ.get("SLURM_JOB_NODELIST", ""))


def _nodes_of(nodes: str) -> list[str]:
    try:
        return expand_hostlist(nodes)
    except ValueError:
        return []


def rank_errors(paths: RunPaths) -> list[tuple[int, dict[str, Any]]]:
    """Each rank that has left an exception, with it."""
    found = []
    try:
        names = os.listdir(paths.errors_dir)
    except OSError:
        return []
    for name in names:
        number = name[len("rank-") : -len(".json")]
        error = read_error(paths, int(number)) if name.endswith(".json") and number.isdigit() else None
        if error is not None:
            found.append((int(number), error))
    return found
