"""What a run that failed before its ranks could speak says in other places: the batch script's log, the agents'."""

from __future__ import annotations

import os
import re

from worldsize.logs.tail import last_lines
from worldsize.plan.paths import RunPaths
from worldsize.plan.setup import FAILED as SETUP_FAILED
from worldsize.state.records import Failure, Reason, RunState, Status

_LINES = 20
_OURS = "worldsize agent: "
_SRUN = "srun: error: "
_MEMORY = re.compile(r"slurmstepd\S*: error: (.*(?:exceeded .*memory limit|oom.kill event).*)", re.IGNORECASE)
"""As slurmstepd has said it from 20.11 on, with control groups and without."""
_UNREACHED = re.compile(r"srun: error: Task launch for \S+ failed on node (\S+): (.+)")
"""src/api/step_launch.c, from 20.11 to 26.05."""
_ENDED_STEP = re.compile(r"slurmstepd\S*: error: \*\*\* STEP .* CANCELLED AT ")
"""What the nodes that were reached say when srun ends the step."""


def with_remarks(paths: RunPaths, status: Status) -> Status:
    """`status` with the cause where nobody else knows it: a setup line, memory, or an agent that could not run."""
    if status.state != RunState.FAILED or (status.failure and status.failure.rank is not None):
        return status
    batch = last_lines(paths.batch_log, _LINES)
    setup = [line for line in batch if line.startswith(SETUP_FAILED)]
    if setup:
        return _because(status, Reason.ENVIRONMENT, setup[-1][len("worldsize: ") :])
    memory = [found[1] for line in batch for found in (_MEMORY.match(line),) if found]
    if memory:
        return _because(status, Reason.OUT_OF_MEMORY, "Slurm: %s" % memory[0])
    if status.started is not None:
        return status
    unreached = _unreached(batch)
    if unreached:
        return _because(status, Reason.NODE_FAILURE, "no rank was started: " + unreached)
    said = _agents_words(paths) or [line for line in batch if line.startswith(_SRUN)][:1] or batch[-1:]
    if not said:
        return status
    return _because(status, status.reason or Reason.EXIT_CODE, "no rank was started: %s" % said[-1].strip())


def while_ending(paths: RunPaths, status: Status) -> Status:
    """`status` of a run whose nodes Slurm still waits for, with why it ends where srun could not start on one of them:
    Slurm takes up to SlurmdTimeout to give that one up."""
    unreached = _unreached(last_lines(paths.batch_log, _LINES)) if status.started is None else ""
    return status._replace(message="%s. %s" % (unreached, status.message)) if unreached else status


def _unreached(batch: list[str]) -> str:
    """Which nodes srun could not start our agent on, why, and what to do; empty if there are none."""
    found = {each[1]: each[2] for line in batch for each in (_UNREACHED.match(line),) if each}
    if not found:
        return ""
    nodes = ",".join(found)
    why = "; ".join(dict.fromkeys(found.values()))
    return "srun could not start anything on %s: %s (to do without: slurm.exclude: %s)" % (nodes, why, nodes)


def _because(status: Status, reason: str, what: str) -> Status:
    failure = status.failure or Failure(reason, what, code=status.exit_code or 1)
    return status._replace(reason=reason, message=what, failure=failure._replace(reason=reason, message=what))


def _agents_words(paths: RunPaths) -> list[str]:
    """The last words of the first agent that said any."""
    try:
        names = sorted(name for name in os.listdir(paths.logs_dir) if name.startswith("agent-"))
    except OSError:
        return []
    for name in names:
        read = last_lines(os.path.join(paths.logs_dir, name), _LINES)
        lines = [line for line in read if line.strip() and not _ENDED_STEP.match(line)]
        ours = [line[len(_OURS) :] for line in lines if line.startswith(_OURS)]
        if ours or lines:
            return [ours[-1] if ours else "%s (%s)" % (lines[-1], name)]
    return []
