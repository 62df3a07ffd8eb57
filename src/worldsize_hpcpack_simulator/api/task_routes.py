"""Answers about tasks and subtasks."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize_hpcpack_simulator.api.auth import may_change, may_end
from worldsize_hpcpack_simulator.api.head import DONE, Answer, Call, Head, message_of
from worldsize_hpcpack_simulator.api.job_routes import all_or_named, known_properties, named, variables_of
from worldsize_hpcpack_simulator.api.paging import clauses, ordered, truth
from worldsize_hpcpack_simulator.catalog import TASK, canonical, checked
from worldsize_hpcpack_simulator.scheduler import verbs
from worldsize_hpcpack_simulator.scheduler.jobs import Job, Task, picked
from worldsize_hpcpack_simulator.wire import Refused, listed, moment_of, names_in, objects, properties_of

TASK_STATES = (
    *("Configuring", "Submitted", "Validating", "Queued", "Dispatching", "Running", "Finishing"),
    *("Finished", "Failed", "Canceled", "Canceling"),
)
_LISTED = ["TaskId", "Name", "State", "CommandLine", "ExitCode", "ParentJobId", "JobTaskId", "InstanceId"]
_FILTERS = ("TaskState", "ChangeTimeFrom", "TaskStates", "TaskIds", "TaskInstanceIds")


def list_tasks(head: Head, call: Call) -> Answer:
    job = head.job(call)
    wanted = names_in(call.query.get("properties")) or _LISTED
    known_properties(wanted, Task(0, 0, {}))
    page = head.pages.page(
        "tasks of %d" % job.number, call.query, lambda: [(task.number, task.instance) for task in _chosen(job, call)]
    )
    found = (_there(job, *key) for key in page.keys)
    return Answer(objects(picked(task, wanted) for task in found), headers=page.headers)


def _there(job: Job, number: int, instance: int) -> Task:
    task = job.tasks[number]
    return task.subtasks[instance] if instance else task


def _chosen(job: Job, call: Call) -> Sequence[Task]:
    expanded = truth(call.query, "expandParametric", True)
    tasks: list[Task] = []
    for task in job.tasks.values():
        tasks += task.subtasks.values() if expanded and task.subtasks else [task]
    filters = clauses(call.query.get("$filter"), _FILTERS)
    states = [
        _state(name) for name in names_in("%s,%s" % (filters.get("TaskState", ""), filters.get("TaskStates", "")))
    ]
    if states:
        tasks = [task for task in tasks if task.state in states]
    if "TaskIds" in filters:
        ids = set(names_in(filters["TaskIds"]))
        tasks = [task for task in tasks if ids & {task.key, str(task.number)}]
    if "TaskInstanceIds" in filters:
        instances = set(names_in(filters["TaskInstanceIds"]))
        tasks = [task for task in tasks if str(task.instance) in instances]
    if "ChangeTimeFrom" in filters:
        since = moment_of(filters["ChangeTimeFrom"])
        tasks = [task for task in tasks if task.changed >= since]
    return _sorted(tasks, call.query.get("sorttasksby", ""), truth(call.query, "asc", True))


def _state(name: str) -> str:
    state = canonical(name, TASK_STATES)
    if state is None:
        raise Refused(400, "There is no task state %s." % name)
    return state


def _sorted(tasks: Sequence[Task], by: str, ascending: bool) -> list[Task]:
    name = canonical(by, tasks[0].shown()) if tasks else None
    if name in (None, "TaskId", "Id"):
        return sorted(tasks, key=lambda task: (task.number, task.instance), reverse=not ascending)
    return ordered(tasks, lambda task: task.shown()[str(name)], ascending)


def add(head: Head, call: Call) -> Answer:
    job = head.job(call)
    may_change(call.user, job.owner)
    if job.over or job.state in ("Finishing", "Canceling"):
        raise Refused(400, "No task can be added to job %d in the %s state." % (job.number, job.state))
    values = checked(properties_of(call.body), TASK, "task")
    return Answer(job.add(sweep_by_flag(values)).number)


def sweep_by_flag(values: dict[str, str]) -> dict[str, str]:
    """The older way to say that a task is a sweep."""
    return {**values, "Type": "ParametricSweep"} if values.get("IsParametric") == "True" else values


def _read(task: Task, call: Call) -> Answer:
    wanted = names_in(call.query.get("properties"))
    known_properties(wanted, task)
    return Answer(listed(picked(task, wanted)))


def read(head: Head, call: Call) -> Answer:
    return _read(head.task(call)[1], call)


def read_sub(head: Head, call: Call) -> Answer:
    return _read(head.subtask(call)[2], call)


def _change(job: Job, task: Task, call: Call) -> Answer:
    may_change(call.user, job.owner)
    values = checked(properties_of(call.body), TASK, "task")
    if values and task.state != "Configuring":
        raise Refused(400, "The task %s cannot be changed in the %s state." % (task.key, task.state))
    task.values.update(sweep_by_flag(values))
    task.touch()
    return DONE


def change(head: Head, call: Call) -> Answer:
    return _change(*head.task(call), call)


def change_sub(head: Head, call: Call) -> Answer:
    job, _, task = head.subtask(call)
    return _change(job, task, call)


def _cancel(head: Head, job: Job, task: Task, call: Call) -> Answer:
    message, forced = message_of(call.body), truth(call.query, "forced", False)
    may_end(call.user, job.owner)
    verbs.cancel_task(head.scheduler, task, message, forced)
    return DONE


def cancel(head: Head, call: Call) -> Answer:
    return _cancel(head, *head.task(call), call)


def cancel_sub(head: Head, call: Call) -> Answer:
    job, _, task = head.subtask(call)
    return _cancel(head, job, task, call)


def _finish(head: Head, job: Job, task: Task, call: Call) -> Answer:
    message = message_of(call.body)
    may_end(call.user, job.owner)
    verbs.finish_task(head.scheduler, task, message)
    return DONE


def finish(head: Head, call: Call) -> Answer:
    return _finish(head, *head.task(call), call)


def finish_sub(head: Head, call: Call) -> Answer:
    job, _, task = head.subtask(call)
    return _finish(head, job, task, call)


def requeue(head: Head, call: Call) -> Answer:
    job, task = head.task(call)
    message_of(call.body)
    may_end(call.user, job.owner)
    verbs.requeue_task(task)
    return DONE


def requeue_sub(head: Head, call: Call) -> Answer:
    job, master, task = head.subtask(call)
    may_end(call.user, job.owner)
    verbs.requeue_task(task, master)
    return DONE


def read_environ(head: Head, call: Call) -> Answer:
    return Answer(listed(all_or_named(head.task(call)[1].environ, call)))


def set_environ(head: Head, call: Call) -> Answer:
    job, task = head.task(call)
    may_change(call.user, job.owner)
    task.environ.update(variables_of(call.body))
    return DONE


def read_custom(head: Head, call: Call) -> Answer:
    return Answer(listed(named(head.task(call)[1].custom, call)))


def set_custom(head: Head, call: Call) -> Answer:
    job, task = head.task(call)
    may_change(call.user, job.owner)
    task.custom.update(properties_of(call.body))
    return DONE
