"""Why a job that was submitted cannot run. It is told in the job's ErrorMessage, never by the submission itself."""

from __future__ import annotations

from collections.abc import Container, Sequence

from worldsize_hpcpack_simulator.scheduler import placement, sweep
from worldsize_hpcpack_simulator.scheduler.jobs import UNIT_LIMITS, Job, Task

LONGEST = 480
"""Characters of a command line."""
TEMPLATES = ("Default",)


def find_problem(job: Job, rooms: Sequence[placement.NodeCapacity], jobs: Container[int]) -> str:
    """In words for the job's owner; "" where there is none."""
    kind = UNIT_LIMITS[job.value("UnitType")]
    if job.value("JobTemplate") not in TEMPLATES:
        return "There is no job template %s." % job.value("JobTemplate")
    if not job.flag("AutoCalculateMax") and job.amount("Max" + kind) < job.amount("Min" + kind):
        return "The job's Max%s is smaller than its Min%s." % (kind, kind)
    for parent in job.names("ParentJobIds"):
        if not parent.isascii() or not parent.isdigit() or int(parent) not in jobs or int(parent) == job.number:
            return "The parent job %s does not exist." % parent
    names = {task.value("Name").lower() for task in job.tasks.values()}
    for task in job.tasks.values():
        if why := _find_task_problem(task, job, kind, names):
            return "Task %s: %s" % (task.key, why)
    return placement.impossible_reason(job, rooms)


def _find_task_problem(task: Task, job: Job, kind: str, names: Container[str]) -> str:
    line = task.value("CommandLine")
    if not line.strip():
        return "the command line is empty."
    if len(line) > LONGEST:
        return "the command line has %d characters, and at most %d are allowed." % (len(line), LONGEST)
    if task.amount("Max" + kind) < task.amount("Min" + kind):
        return "Max%s is smaller than Min%s." % (kind, kind)
    if not job.flag("AutoCalculateMax") and task.amount("Min" + kind) > job.amount("Max" + kind):
        return "it needs more %s than the job may have." % kind.lower()
    if 0 < job.seconds < task.seconds:
        return "its run time is longer than that of the job."
    for name in task.names("DependsOn"):
        if name.lower() not in names:
            return "it depends on task %s, which does not exist." % name
    if task.is_sweep and not 0 < sweep.step_count(task) <= sweep.MOST:
        return "its sweep has %d steps." % sweep.step_count(task)
    return ""
