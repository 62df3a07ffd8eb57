"""The failures of a batch script: the rank or step that made the script fail, and the steps that failed although the
script continued after them.

The texts of the real srun are those of Slurm's src/srun/libsrun and src/api/step_launch.c, 20.11 to 26.05. For each
task that did not end with code 0, srun reports how it ended, in the order in which the tasks end. srun terminates the
step of the first such task ("Terminating StepId=7.0").
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator, Sequence

from worldsize.agent.outcome.rank_failure import rank_failure, read_error
from worldsize.agent.outcome.rank_warnings import command_text, exception_warning
from worldsize.common.atomic_files import read_tail
from worldsize.common.named_tuple import NamedTuple
from worldsize.plan.hostlist import expand_hostlist
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.exit_records import signal_name
from worldsize.state.first_failure import first_failure
from worldsize.state.records import Failure, Reason, RunWarning
from worldsize.wings.batch_scripts.agent.step_records import last_failure, read_steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LOG_TAIL_BYTES = 64 << 10
"""The number of bytes at the end of a script's log that are searched for srun's reports on its last step."""

_STEP = "failed-step"
_STOP_CODES = (130, 137, 143)
"""Exit codes of tasks that a signal stopped. A script that ends its own step by a signal does so on purpose."""
_TASK = re.compile(r"(?:\S+: )?srun: error: (\S+): tasks? ([0-9]{1,9})[-,0-9]*: (.+)$")
_CODE = re.compile(r"Exited with exit code ([0-9]{1,9})$")
_ENDS = re.compile(r"(?:\S+: )?srun: (?:launch/slurm: _?\w+: )?Terminating (?:StepId=|job step )\S+$")


class EndedTask(NamedTuple):
    """The lowest-numbered of the tasks that ended in the same way on a node. `code` is its exit code, 128+N for signal
    N."""

    task: int
    host: str
    code: int


def batch_failure(plan: Plan, paths: RunPaths, host: str, code: int, ended: float, oom: bool) -> Failure:
    """Return the Failure of a batch script that ended with the exit code `code` at the time `ended`: the failure of its
    last step if that step is the cause, otherwise that of the script itself. `oom` is whether the kernel killed a
    process for lack of memory."""
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
    """Return the first failure according to the exceptions that ranks have recorded in their error files, for a batch
    script without records of its steps; None if there are none. The exit code of an uncaught exception is 1. The
    script's exit code may instead be that of the ranks that srun terminated because of the exception."""
    names = _node_names(plan)
    nodes = {rank.rank: node.node_rank for node in plan.nodes for rank in node.ranks}
    own = code if code < 128 else 1
    found = []
    for rank, error in _rank_errors(paths):
        node = nodes.get(rank, 0)
        name = names[node] if node < len(names) else host
        found.append(rank_failure(rank, node, name, own, ended, error, oom))
    return first_failure(found)


def _first_task_failure(plan: Plan, paths: RunPaths, code: int, ended: float, oom: bool) -> Failure | None:
    """Return the Failure of the first failed task that the real srun reports in the batch script's log for the script's
    last step, whose tasks have recorded no exceptions; None if srun reports none."""
    task = first_failed_task(_last_lines(plan, paths), code)
    if task is None:
        return None
    names = _node_names(plan)
    host = next(iter(_nodes_of(task.host)), task.host)
    node = names.index(host) if host in names else 0
    return rank_failure(task.task, node, host, task.code, ended, None, oom)


def _last_lines(plan: Plan, paths: RunPaths) -> list[str]:
    """Return the last lines of the batch script's log (64 KiB), in which the real srun reports on its steps; an empty
    list on virtual nodes."""
    if plan.batch is None or plan.batch.virtual:
        return []
    return read_tail(paths.rank_log(0), _LOG_TAIL_BYTES).decode("utf-8", "replace").splitlines()


def _node_names(plan: Plan) -> list[str]:
    assert plan.batch is not None
    if plan.batch.virtual:
        return list(plan.batch.hosts)
    return _nodes_of(os.environ.get("SLURM_JOB_NODELIST", ""))


def _nodes_of(nodes: str) -> list[str]:
    """Return the node names in `nodes`, a list in Slurm's form such as `n[1-3]`; an empty list if `nodes` is not such a
    list."""
    try:
        return expand_hostlist(nodes)
    except ValueError:
        return []


def _rank_errors(paths: RunPaths) -> list[tuple[int, dict[str, Any]]]:
    """Return the pairs of a rank and the exception that it has recorded in its error file, as a dict; an empty list if
    the directory of the error files cannot be read."""
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


def script_warnings(plan: Plan, paths: RunPaths) -> Iterator[RunWarning]:
    """Yield a RunWarning for each step of a batch script that failed and after which the script continued, then one for
    each exception of a rank and each failed task that no step reported."""
    told: set[int | None] = set()
    for step in read_steps(paths):
        if not step.get("code") or step.get("stopped"):
            continue  # a script that ends its own step by a signal does so on purpose
        told.add((step.get("failure") or {}).get("rank"))
        yield _step_warning(step)
    for rank, error in sorted(_rank_errors(paths), key=lambda each: each[0]):
        if rank not in told:
            told.add(rank)
            yield exception_warning(rank, error)
    for task in ended_tasks(_last_lines(plan, paths)):
        if task.task not in told and task.code not in _STOP_CODES:
            told.add(task.task)
            what = "task %d of a step (%s) ended with code %d, and the script continued"
            yield RunWarning(_STEP, what % (task.task, task.host, task.code), task.task)


def _step_warning(step: dict[str, Any]) -> RunWarning:
    failure = step.get("failure") or {}
    what = f"step {step['step']} ({command_text(step['command'])}) ended with code {step['code']}"
    why = failure.get("message")
    return RunWarning(_STEP, f"{what}: {why}" if why else what, failure.get("rank"))


def first_failed_task(lines: Sequence[str], code: int) -> EndedTask | None:
    """Return the first failed task of the step that gave a batch script its exit code `code`, according to srun's
    reports in `lines` of the script's log; None if the lines do not report that step."""
    ends = [index for index, line in enumerate(lines) if _ENDS.match(line)]
    told = [(index, task) for index, line in enumerate(lines) for task in (_task(line),) if task]
    if not told:
        return None
    before = [place for place, (index, _) in enumerate(told) if ends and index < ends[-1]]
    first = before[-1] if before else 0
    step = [task for _, task in told[first:]]
    return step[0] if code in [task.code for task in step] else None


def ended_tasks(lines: Sequence[str]) -> list[EndedTask]:
    """Return the EndedTask of each report of the real srun in `lines` of a batch script's log, in their order. srun
    reports only tasks that a signal or a code other than 0 ended."""
    return [task for line in lines for task in (_task(line),) if task]


def _task(line: str) -> EndedTask | None:
    match = _TASK.match(line)
    if match is None:
        return None
    exited = _CODE.match(match[3])
    code = int(exited[1]) if exited else _code_of_signal(match[3])
    return EndedTask(int(match[2]), match[1], code) if code else None


def _code_of_signal(words: str) -> int:
    """Return the exit code of the signal that `words` describes in the form of strsignal, such as "Killed" or
    "Segmentation fault (core dumped)"; 0 if there is no such signal."""
    words = words.replace(" (core dumped)", "")
    return next((128 + number for number in signal.valid_signals() if signal.strsignal(number) == words), 0)
