"""The validation of submitted jobs. A problem is reported in the job's ErrorMessage, never by the submission itself."""

from __future__ import annotations

from collections.abc import Container, Sequence

from worldsize_hpcpack_simulator.scheduler import placement, sweep
from worldsize_hpcpack_simulator.scheduler.jobs import UNIT_LIMITS, Job, Task

LONGEST = 480
"""The largest number of characters of a command line."""
TEMPLATES = ("Default",)


def find_problem(job: Job, rooms: Sequence[placement.NodeCapacity], jobs: Container[int]) -> str:
    """Return the reason why the submitted job cannot run on the nodes `rooms`, in words for its owner; "" if there is
    no problem. `jobs` contains the ids of all jobs, for the check of its parents."""
    kind = UNIT_LIMITS[job.value("UnitType")]
    if job.value("JobTemplate") not in TEMPLATES:
        return f"There is no job template {job.value('JobTemplate')}."
    if not job.flag("AutoCalculateMax") and job.amount("Max" + kind) < job.amount("Min" + kind):
        return f"The job's Max{kind} is smaller than its Min{kind}."
    for parent in job.names("ParentJobIds"):
        if not parent.isascii() or not parent.isdigit() or int(parent) not in jobs or int(parent) == job.number:
            return f"The parent job {parent} does not exist."
    names = {task.value("Name").lower() for task in job.tasks.values()}
    for task in job.tasks.values():
        if why := _find_task_problem(task, job, kind, names):
            return f"Task {task.key}: {why}"
    return placement.impossible_reason(job, rooms)


def _find_task_problem(task: Task, job: Job, kind: str, names: Container[str]) -> str:
    line = task.value("CommandLine")
    if not line.strip():
        return "the command line is empty."
    if len(line) > LONGEST:
        return f"the command line has {len(line)} characters, and at most {LONGEST} are allowed."
    if task.amount("Max" + kind) < task.amount("Min" + kind):
        return f"Max{kind} is smaller than Min{kind}."
    if not job.flag("AutoCalculateMax") and task.amount("Min" + kind) > job.amount("Max" + kind):
        return f"it needs more {kind.lower()} than the job may have."
    if 0 < job.seconds < task.seconds:
        return "its run time is longer than that of the job."
    for name in task.names("DependsOn"):
        if name.lower() not in names:
            return f"it depends on task {name}, which does not exist."
    if task.is_sweep and not 0 < sweep.step_count(task) <= sweep.MOST:
        return f"its sweep has {sweep.step_count(task)} steps."
    return ""
