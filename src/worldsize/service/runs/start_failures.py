"""Causes of a run that failed before its ranks could write, found in the batch script's log and the agents' logs by the
messages of srun, of the shell that starts an agent, and of the agent.

The messages of Slurm are those of src/api/step_launch.c and src/srun, 20.11 to 26.05.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Callable, Sequence

from worldsize.agent.outcome.node_record import is_disk_full
from worldsize.common.named_tuple import NamedTuple
from worldsize.common.numbers import parse_digits
from worldsize.logs.tail import last_lines
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.setup_script import ATTEMPT_MARK, NO_RUN_EXIT_CODE, REPLACEABLE_EXIT_CODE, current_step, failed_step
from worldsize.state.exit_records import ranks_start_time
from worldsize.state.records import Failure, Reason, RunState, Status

_LINES = 50
_SRUN = "srun: error: "
_UNINFORMATIVE_REASONS = (None, Reason.SIGNAL, Reason.EXIT_CODE)
"""Reasons of srun's own end, and of the end of the agents that it ended. They contain no information about the agent
that failed."""
_ENDED_ON_TERM = re.compile(r"srun: error: \S+: tasks? .*: Exited with exit code 143$")
_MEMORY = re.compile(r"slurmstepd\S*: error: (.*(?:exceeded .*memory limit|oom.kill event).*)", re.IGNORECASE)
"""The message of slurmstepd about exceeded memory, from 20.11 on, with control groups and without."""

_ENDED_BY_SLURM = re.compile(
    r"slurmstepd\S*: error: \*\*\* (.* DUE TO (TIME LIMIT|PREEMPTION|NODE FAILURE).*?) \*\*\*$"
)
_TIME = re.compile(r"slurmstepd\S*: error: \*\*\* .* (?:CANCELLED|TERMINATED .*) AT (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)")
_SLURM_REASONS = {
    "TIME LIMIT": Reason.TIME_LIMIT,
    "PREEMPTION": Reason.PREEMPTED,
    "NODE FAILURE": Reason.NODE_FAILURE,
}
_AGENT_PREFIX = "worldsize agent: "
_UNREACHED = re.compile(r"srun: error: Task launch for \S+ failed on node (\S+): (.+)")
_EXITED = re.compile(r"srun: error: (\S+): tasks? ([0-9]{1,9})\b.*: Exited with exit code ([0-9]{1,9})$")
_KILLED = re.compile(r"srun: error: (\S+): tasks? [0-9]{1,9}\b.*: Killed$")
_SHELL = re.compile(r"\S+: (?:line )?\d+: (?:exec: )?(.+)")
_NO_PROGRAM = (126, 127)


def with_cause(paths: RunPaths, status: Status, cancelled: bool) -> Status:
    """Return `status` of an ended run with the cause of its failure if only the batch script's and agents' logs contain
    it: a setup line, memory, an agent that could not run, or Slurm itself, unless the run was `cancelled`. Where the
    native job can no longer be queried, or was an allocation, these logs are the only source."""
    if status.state == RunState.SUCCEEDED or (status.failure and status.failure.rank is not None):
        return status
    batch = _batch_lines(paths)
    if batch is None:
        return _with_unbegun_attempt(status, paths.attempt)
    ended = [found for line in batch for found in (_ENDED_BY_SLURM.match(line),) if found]
    if ended and (status.state != RunState.FAILED or status.reason in _UNINFORMATIVE_REASONS) and not cancelled:
        return _with_failure(status, _SLURM_REASONS[ended[0][2]], f"Slurm: {ended[0][1]}")
    return status if status.state == RunState.CANCELLED else _with_logged_cause(paths, status, batch)


def _with_unbegun_attempt(status: Status, attempt: int) -> Status:
    """Return `status` for an attempt that Slurm ended before its batch script could write. If the run failed without an
    informative reason, the message is extended by the fact that the script had not begun; else the status is unchanged.
    """
    if status.state != RunState.FAILED or status.reason not in _UNINFORMATIVE_REASONS:
        return status
    reason = status.reason or Reason.EXIT_CODE
    return _with_failure(status, reason, f"{status.message}, before the script of attempt {attempt} began")


def _with_logged_cause(paths: RunPaths, status: Status, batch: list[str]) -> Status:
    setup = [failed for line in batch for failed in (failed_step(line),) if failed]
    if setup:
        return _with_failure(status, Reason.ENVIRONMENT, setup[-1])
    memory = [found[1] for line in batch for found in (_MEMORY.match(line),) if found]
    if memory:
        return _with_failure(status, Reason.OUT_OF_MEMORY, f"Slurm: {memory[0]}")
    if ranks_start_time(paths) is not None:
        return status
    step = current_step(paths.batch_log)
    return _with_setup_failure(status, step) if step else _with_start_failure(paths, status, batch)


def _with_setup_failure(status: Status, step: str) -> Status:
    if status.reason is not None and status.reason not in _UNINFORMATIVE_REASONS:
        return _with_failure(status, status.reason, f"{status.message}, at this line of setup: {step}")
    code = f" with code {status.exit_code}" if status.state == RunState.FAILED and status.exit_code else ""
    return _with_failure(status, Reason.ENVIRONMENT, f"setup ended the run{code}: {step}")


def _with_start_failure(paths: RunPaths, status: Status, batch: list[str]) -> Status:
    found = _find_start_failure(paths, batch)
    killed = found is not None and found.reason == Reason.NODE_FAILURE and not found.certain
    if killed and status.started is not None and not any(map(_ENDED_ON_TERM.match, batch)):
        return status  # all agents were killed, and at least one had begun
    if status.reason in _UNINFORMATIVE_REASONS and not (found and found.certain) and is_disk_full(paths.root):
        what = "no rank was started: no space left on the run directory's file system (%s)"
        return _with_failure(status, Reason.STORAGE, what % paths.root)
    if found and (found.certain or status.reason in _UNINFORMATIVE_REASONS):
        return _with_failure(status, found.reason, f"no rank was started: {found.words}")
    said = [line for line in batch if line.startswith(_SRUN)][:1]
    said = said or ([] if status.state == RunState.LOST else batch[-1:])
    if status.started is not None or not said:
        return status
    return _with_failure(status, status.reason or Reason.EXIT_CODE, f"no rank was started: {said[-1].strip()}")


def with_ending_cause(paths: RunPaths, status: Status) -> Status:
    """Return `status` of a run whose nodes Slurm still waits for. If the run has not started and no agent could start
    on one of the nodes, its message begins with that cause. Slurm takes up to SlurmdTimeout to give up such a node."""
    found = _find_start_failure(paths, _batch_lines(paths) or []) if status.started is None else None
    return status._replace(message=f"{found.words}. {status.message}") if found and found.certain else status


def _batch_lines(paths: RunPaths) -> list[str] | None:
    """Return the last lines of the batch script's log that belong to this attempt. None if the attempt has written none
    and the lines in the log are those of an earlier attempt: Slurm can end a job that it has restarted before its
    script runs, for instance where a node is still revoking its credential."""
    lines = last_lines(paths.batch_log, _LINES)
    begun = [index for index, line in enumerate(lines) if line.startswith(ATTEMPT_MARK)]
    if _latest_mark(lines, begun) < paths.attempt and not os.path.exists(paths.logs_dir):
        return None
    return lines[begun[-1] + 1 :] if begun else lines


def attempt_lines(paths: RunPaths) -> list[str]:
    """Return the last lines of the batch script's log that belong to the attempt of the run in `paths`; an empty list
    if there are none."""
    return _batch_lines(paths) or []


def slurm_time(line: str) -> float | None:
    """Return the time at which Slurm wrote this line about the end of a job or step (Unix time in whole seconds); None
    for a line without a time. Slurm writes the first node's local time."""
    found = _TIME.search(line)
    try:
        return None if found is None else time.mktime(time.strptime(found[1], "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None


def _latest_mark(lines: Sequence[str], begun: Sequence[int]) -> float:
    """Return the number of the attempt that wrote the last of the log's `lines`, from the last of its marks, whose
    indices are `begun`. Infinity if the mark is further up in the log."""
    if not begun:
        return 0 if len(lines) < _LINES else math.inf
    number = parse_digits(lines[begun[-1]][len(ATTEMPT_MARK) :])
    return math.inf if number is None else number


def _find_start_failure(paths: RunPaths, batch: list[str]) -> StartFailure | None:
    return find_start_failure(batch, lambda node_rank: last_lines(paths.agent_log(node_rank), _LINES))


def _with_failure(status: Status, reason: str, what: str) -> Status:
    code = (status.state == RunState.FAILED and status.exit_code) or 1
    failure = (status.failure or Failure(reason, what, code=code))._replace(reason=reason, message=what)
    return status._replace(state=RunState.FAILED, reason=reason, exit_code=code, message=what, failure=failure)


class StartFailure(NamedTuple):
    """The reason why no rank was started, and its description. If `certain`, no rank can have started; otherwise the
    description is only that of the first agent that failed."""

    reason: str
    words: str
    certain: bool = True


def find_start_failure(batch: Sequence[str], log: Callable[[int], Sequence[str]]) -> StartFailure | None:
    """Return the reason why no rank was started: the failure of the node that failed first, found in the lines of the
    batch script's log and in those of the node's agent, which `log` returns for a node rank; None if no node failed."""
    unreached = {match[1]: match[2] for match in map(_UNREACHED.match, batch) if match}
    if unreached:
        return _unreached_failure(unreached)
    for line in batch:
        killed, match = _KILLED.match(line), _EXITED.match(line)
        if killed is not None:
            return StartFailure(Reason.NODE_FAILURE, f"the agent on {killed[1]} was killed (SIGKILL)", False)
        if match is not None:
            return _agent_exit_failure(
                match[1], int(match[3]), batch, [line for line in log(int(match[2])) if line.strip()]
            )
    return None


def _unreached_failure(why: dict[str, str]) -> StartFailure:
    nodes = ",".join(why)
    what = "srun could not start anything on %s: %s (to exclude it: slurm.exclude: %s)"
    return StartFailure(Reason.NODE_FAILURE, what % (nodes, "; ".join(dict.fromkeys(why.values())), nodes))


def _agent_exit_failure(node: str, code: int, batch: Sequence[str], said: Sequence[str]) -> StartFailure:
    if code == NO_RUN_EXIT_CODE:
        shell = [match[1] for match in map(_SHELL.match, batch) if match and "agent-" in match[1]]
        what = f"{node} does not see the run directory, or may not write there: is its file system mounted?"
        return StartFailure(Reason.ENVIRONMENT, " ".join([what, *(f"({words})" for words in shell[:1])]))
    if code == REPLACEABLE_EXIT_CODE:
        return StartFailure(
            Reason.ENVIRONMENT,
            "; ".join(_agent_words(said)) or f"another user could replace what ranks execute on {node}",
        )
    if code in _NO_PROGRAM and said:
        shown = _SHELL.match(said[-1])
        what = "%s cannot start the agent: %s (another interpreter: `python` of the compute)"
        return StartFailure(Reason.ENVIRONMENT, what % (node, shown[1] if shown else said[-1]))
    return StartFailure(
        Reason.EXIT_CODE, ": ".join([f"the agent on {node} ended with code {code}", *_agent_words(said)]), False
    )


def _agent_words(said: Sequence[str]) -> Sequence[str]:
    """Return the last line of a log that the worldsize agent itself wrote, without its prefix, else the last line of
    the log, as a sequence with one item; an empty sequence if there is no line."""
    ours = [line[len(_AGENT_PREFIX) :] for line in said if line.startswith(_AGENT_PREFIX)]
    return ours[-1:] or [line.strip() for line in said[-1:]]
