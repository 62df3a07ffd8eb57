"""Whose fault it was that a batch script failed, and which of its tasks failed at all."""

from __future__ import annotations

import os

from worldsize.agent.outcome.rank_failure import rank_failure, read_error
from worldsize.common.atomic_files import read_tail
from worldsize.plan.hostlist import expand_hostlist
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import signal_name
from worldsize.state.first_failure import first_failure
from worldsize.state.records import Failure, Reason
from worldsize.wings.batch_scripts.agent.srun_report import EndedTask, ended_tasks, first_failed_task
from worldsize.wings.batch_scripts.agent.step_records import last_failure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOG_TAIL_BYTES = 64 << 10
"""Bytes at the end of a script's log in which srun tells of its last step."""

_STOP_CODES = (130, 137, 143)
"""A script that ends its own step by a signal means to."""


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
