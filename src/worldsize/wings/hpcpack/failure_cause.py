"""The cause of a failed job about which no agent could report, found from its tasks, whose output HPC Pack cuts at
1,500 bytes. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from worldsize.state.records import Failure, Reason
from worldsize.wings.hpcpack.head.wire import Properties, items_of, number_of, time_of

TASK_PROPERTIES = "TaskId,Name,State,ExitCode,ErrorMessage,Output,AllocatedNodes,StartTime,EndTime"
_NODE_LOST = re.compile(
    r"unreachable|not reachable|lost (contact|connection)|heartbeat|node .*(is|went) (down|offline)", re.I
)
_TOO_LONG = re.compile(r"(run ?time|limit of \d+ sec|time limit|ran for longer|exceeded its allo)", re.I)
_NO_PYTHON = re.compile(r"([\w./-]*python[\w.]*): (?:command )?not found|([\w./-]*python[\w.]*): No such file", re.I)
_NO_SHARE = re.compile(
    r"can't open file|No such file or directory|not a directory|does not exist|cannot chdir|cd: ", re.I
)
_DENIED = re.compile(r"Permission denied", re.I)
_EXITED = re.compile(r"exit(ed)?( with)? code", re.I)
_KEY = re.compile(r"\btask (\d+\.\d+)", re.I)
_AGENT_PREFIX = "worldsize agent: "
_MOST = 300
_CANCELLED, _CANCELLATION_CODES = 130, (130, 143)


def find_failure_cause(job: Properties, tasks: Sequence[Properties], share: str) -> Failure:
    """Return the cause of a failed HPC Pack job from its properties and those of its tasks. `share` is the path of the
    shared directory on the nodes, for the message."""
    said = job.get("errormessage", "")
    if not job.get("starttime") and not any(task.get("starttime") for task in tasks):
        words = "HPC Pack refused the job: {}".format(said or "it gives no reason")
        return Failure(Reason.SUBMIT_REJECTED, words)
    task = find_failed_task(said, tasks)
    if _TOO_LONG.search(said) and not (task and task.get("output", "").strip()):
        return Failure(Reason.TIME_LIMIT, f"HPC Pack: {said}", code=124)
    if task is None:
        words = "HPC Pack: {}".format(said or "the job failed, and it gives no reason")
        return Failure(Reason.NODE_FAILURE, words)
    return _manual_cancellation(said, tasks) or _task_failure_cause(task, share)


def _manual_cancellation(said: str, tasks: Sequence[Properties]) -> Failure | None:
    """Return the failure of an HPC Pack job of which a user has cancelled a task, recognised by a message on the task
    that the job does not have; None for other jobs. None also if any failed task has output or an exit code other than
    that of a cancelled agent. `said` is the job's own message."""
    failed = [task for task in tasks if task.get("state", "").lower() == "failed"]
    if any(number_of(task.get("exitcode", "")) not in _CANCELLATION_CODES or task.get("output") for task in failed):
        return None
    for task in failed:
        message = task.get("errormessage", "")
        named = task is find_failed_task(said, tasks)
        known = any(pattern.search(message) for pattern in (_EXITED, _TOO_LONG, _NODE_LOST))
        by_hand = message and not known and (named or message not in said)
        if by_hand and number_of(task.get("exitcode", "")) == _CANCELLED:
            words = f"HPC Pack: the task on node {_node_names(task)} was terminated: {message}"
            return Failure(Reason.CANCELLED_BY_USER, words, code=_CANCELLED)
    return None


def _node_names(task: Properties) -> str:
    return ", ".join(items_of(task.get("allocatednodes", ""))) or task.get("name", "a node")


def find_failed_task(said: str, tasks: Sequence[Properties]) -> Properties | None:
    """Return the failed task that the job's message `said` names, else the task that failed first; None if no task has
    failed."""
    failed = [task for task in tasks if task.get("state", "").lower() == "failed"]
    named = _KEY.search(said)
    ours = [task for task in failed if named and task.get("taskid") == named[1]]
    return min(ours or failed, key=lambda task: time_of(task.get("endtime", "")) or float("inf"), default=None)


def _task_failure_cause(task: Properties, share: str) -> Failure:
    node = _node_names(task)
    code = number_of(task.get("exitcode", "")) or 0
    message, output = task.get("errormessage", ""), task.get("output", "")
    if _NODE_LOST.search(message):
        return Failure(Reason.NODE_FAILURE, f"HPC Pack: node {node} was lost: {message}")
    if _TOO_LONG.search(message):
        return Failure(Reason.TIME_LIMIT, f"HPC Pack: {message}", code=124)
    ours = [line[len(_AGENT_PREFIX) :] for line in output.splitlines() if line.startswith(_AGENT_PREFIX)]
    if ours:
        return Failure(Reason.EXIT_CODE, f"node {node}: {ours[-1]}", code=code or 1)
    return _start_failure_cause(node, code, message, output, share)


def _start_failure_cause(node: str, code: int, message: str, output: str, share: str) -> Failure:
    """Return the failure of a node's agent that did not begin, such as a missing Python or share. It is found from the
    task's exit code `code`, the `message` of HPC Pack's node manager, and the `output` of the shell."""
    said = "; ".join(each for each in (_first_line(output), message) if each) or "it printed nothing"
    missing = _NO_PYTHON.search(output) or _NO_PYTHON.search(message)
    if missing and not _NO_SHARE.search(output.replace(missing[0], "")):
        program, code = missing[1] or missing[2], code or 127
        what = f"has no {program}: install it there, or name another one: `python` of the compute"
    elif _NO_SHARE.search(f"{output}\n{message}"):
        hint = "mount it there: `worldsize hpcpack share` prints the script"
        what = f"does not see the share at {share}, so its agent never started: {hint}"
    elif _DENIED.search(said):
        hint = "the account that tasks run as must be able to read it"
        what = f"may not read the run in {share}, so its agent never started: {hint}"
    else:
        words = f"the agent of node {node} never started, or was killed: {said}"
        return Failure(Reason.EXIT_CODE, words, code=code or 1)
    return Failure(Reason.ENVIRONMENT, f"node {node} {what} ({said})", code=code or 1)


def _first_line(text: str) -> str:
    """Return the first non-empty line of a failed task's output, shortened to 300 characters. If the output begins with
    the traceback of an uncaught exception, return the last line, which names the exception."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    line = (lines[-1] if lines[0].startswith("Traceback ") else lines[0]) if lines else ""
    return line if len(line) <= _MOST else line[: _MOST - 1] + "…"
