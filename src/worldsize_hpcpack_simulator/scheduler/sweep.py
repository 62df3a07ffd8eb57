"""Parametric sweeps: a master task that represents a subtask for each value."""

from __future__ import annotations

from collections.abc import Iterator

from worldsize_hpcpack_simulator.scheduler.jobs import LIVE, Job, Task

MOST = 10_000
_SWEPT = ("CommandLine", "WorkDirectory", "StdInFilePath", "StdOutFilePath", "StdErrFilePath")


def indices(task: Task) -> Iterator[int]:
    """Yield the values of the parametric sweep `task`, from StartValue to EndValue by IncrementValue, at most
    `MOST`."""
    start, end, by = task.amount("StartValue"), task.amount("EndValue"), task.amount("IncrementValue")
    if by and (end - start) * by >= 0:
        yield from range(start, end + (1 if by > 0 else -1), by)[:MOST]


def step_count(task: Task) -> int:
    start, end, by = task.amount("StartValue"), task.amount("EndValue"), task.amount("IncrementValue")
    return (end - start) // by + 1 if by and (end - start) * by >= 0 else 0


def expand_sweeps(job: Job) -> None:
    """Create the subtasks, one for each value, of every parametric sweep of the job that has none, in the state
    Queued."""
    for task in job.tasks.values():
        if task.is_sweep and not task.subtasks:
            for number, index in enumerate(indices(task), 1):
                subtask = Task(job.number, task.number, _subtask_values(task, index), number)
                subtask.environ, subtask.submitted = task.environ, task.submitted
                subtask.enter_state("Queued")
                task.subtasks[number] = subtask


def _subtask_values(task: Task, index: int) -> dict[str, str]:
    """Return the properties of the subtask of a parametric sweep for the value `index`. Each `*` in the command line,
    directory and file paths is replaced by the value; several in a row add leading zeros."""
    values = dict(task.values)
    for name in _SWEPT:
        if name in values:
            values[name] = with_index(values[name], index)
    return values


def with_index(text: str, index: int) -> str:
    found, at = [], 0
    while at < len(text):
        stars = len(text[at:]) - len(text[at:].lstrip("*"))
        found.append(str(index).zfill(stars) if stars else text[at])
        at += stars or 1
    return "".join(found)


def update_master(task: Task) -> None:
    """Set the state of a parametric sweep's master task from the states of its subtasks. A master task that has ended,
    or has no subtasks, is unchanged."""
    states = [each.state for each in task.subtasks.values()]
    if task.is_over or not states:
        return
    if all(each.is_over for each in task.subtasks.values()):
        task.enter_state("Failed" if "Failed" in states else "Canceled" if "Canceled" in states else "Finished")
    elif task.state in ("Queued", "Configuring") and any(state in (*LIVE, "Finishing") for state in states):
        task.enter_state("Running")
