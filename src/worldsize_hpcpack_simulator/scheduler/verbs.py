"""The actions of users on jobs and tasks: submit, cancel, finish, requeue. Each raises RequestRefused in states in
which it is not possible."""

from __future__ import annotations

from worldsize_hpcpack_simulator.scheduler.jobs import Job, Task
from worldsize_hpcpack_simulator.scheduler.scheduler import Scheduler
from worldsize_hpcpack_simulator.wire import RequestRefused

WAITING = ("Submitted", "Validating", "ExternalValidation", "Queued")
_ENDABLE = (*WAITING, "Running")


def submit(scheduler: Scheduler, job: Job) -> None:
    """Make a job that is configured, or an ended job with requeued tasks, enter the state Submitted; the scheduler
    validates it later. Raise RequestRefused if the job is in another state."""
    again = job.state in ("Failed", "Canceled") and any(task.state == "Configuring" for task in job.runnable_tasks())
    if job.state != "Configuring" and not again:
        raise _wrong_state_error("submitted", f"job {job.number}", job.state)
    for task in dict.fromkeys([*job.tasks.values(), *job.runnable_tasks()]):
        if task.state == "Configuring":
            task.enter_state("Submitted")
    job.renew()
    job.enter_state("Submitted")
    scheduler.active[job.number] = job


def cancel_job(scheduler: Scheduler, job: Job, message: str, forced: bool) -> None:
    if job.state == "Configuring":
        job.enter_state("Canceled", message)
    elif job.state in _ENDABLE or job.state == "Canceling":
        scheduler.end_job(job, "Canceled", message or "The job was canceled.", forced)
    else:
        raise _wrong_state_error("canceled", f"job {job.number}", job.state)


def finish_job(scheduler: Scheduler, job: Job, message: str) -> None:
    if job.state not in _ENDABLE:
        raise _wrong_state_error("finished", f"job {job.number}", job.state)
    scheduler.end_job(job, "Finished", message)


def requeue_job(scheduler: Scheduler, job: Job) -> None:
    """Requeue a failed, canceled or running job, as `Scheduler.requeue`. A running job is stopped first. Raise
    RequestRefused if the job is in another state."""
    if job.state == "Running":
        scheduler.end_job(job, "Queued", "The job was requeued.")
    elif job.state in ("Failed", "Canceled"):
        scheduler.requeue(job)
    else:
        raise _wrong_state_error("requeued", f"job {job.number}", job.state)


def cancel_task(scheduler: Scheduler, task: Task, message: str, forced: bool) -> None:
    """Cancel a task, or all subtasks of a sweep. Those that run fail. The others are canceled, and stay so when the job
    is requeued. Raise RequestRefused if the task has ended."""
    if task.is_over or task.state == "Finishing":
        raise _wrong_state_error("canceled", f"task {task.key}", task.state)
    for each in task.subtasks.values() if task.is_sweep else [task]:
        scheduler.end_task(each, "Failed", message or "The task was canceled.", forced)
        each.dismissed = each.state == "Canceled"
    if task.is_sweep:
        task.enter_state("Canceled", message)


def finish_task(scheduler: Scheduler, task: Task, message: str) -> None:
    if task.state not in ("Running", "Dispatching", "Queued"):
        raise _wrong_state_error("finished", f"task {task.key}", task.state)
    for each in task.subtasks.values() if task.is_sweep else [task]:
        scheduler.end_task(each, "Finished", message)


def requeue_task(task: Task, master: Task) -> None:
    """Make an ended or queued task enter the state Configuring again. It is queued when its job is submitted again, or
    soon if its job still runs. `master` is the task itself, or the sweep to which it belongs. Raise RequestRefused if
    the task is in another state."""
    if task.state not in ("Failed", "Canceled", "Queued"):
        raise _wrong_state_error("requeued", f"task {task.key}", task.state)
    for each in (task, *task.subtasks.values()):
        if each.state in ("Failed", "Canceled", "Queued"):
            each.requeues += 1
            each.renew()
            each.enter_state("Configuring")
    if master.is_over:
        master.enter_state("Configuring")


def _wrong_state_error(done: str, what: str, state: str) -> RequestRefused:
    return RequestRefused(400, f"The {what} cannot be {done} in the {state} state.")
