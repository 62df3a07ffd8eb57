"""The answers about tasks and subtasks."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize_hpcpack_simulator.api.auth import check_may_change, check_may_end
from worldsize_hpcpack_simulator.api.head import DONE, Answer, Call, HeadNode, parse_message
from worldsize_hpcpack_simulator.api.job_routes import check_property_names
from worldsize_hpcpack_simulator.api.paging import parse_filter, parse_flag, sort_by_property
from worldsize_hpcpack_simulator.catalog import TASK, canonical_name, parse_properties
from worldsize_hpcpack_simulator.scheduler import verbs
from worldsize_hpcpack_simulator.scheduler.jobs import Job, Task, select_properties
from worldsize_hpcpack_simulator.wire import (
    RequestRefused,
    names_in,
    parse_date,
    parse_property_list,
    to_objects,
    to_property_list,
)

TASK_STATES = (
    *("Configuring", "Submitted", "Validating", "Queued", "Dispatching", "Running", "Finishing"),
    *("Finished", "Failed", "Canceled", "Canceling"),
)
_LISTED = ["TaskId", "Name", "State", "CommandLine", "ExitCode", "ParentJobId", "JobTaskId", "InstanceId"]
_FILTERS = ("TaskState", "ChangeTimeFrom", "TaskStates", "TaskIds", "TaskInstanceIds")


def list_tasks(head: HeadNode, call: Call) -> Answer:
    job = head.job(call)
    wanted = names_in(call.query.get("properties")) or _LISTED
    check_property_names(wanted, Task(0, 0, {}))
    page = head.pages.page(
        f"tasks of {job.number}",
        call.query,
        lambda: [(task.number, task.instance) for task in _select_tasks(job, call)],
    )
    found = (_find_task(job, *key) for key in page.keys)
    return Answer(to_objects(select_properties(task, wanted) for task in found), headers=page.headers)


def _find_task(job: Job, number: int, instance: int) -> Task:
    task = job.tasks[number]
    return task.subtasks[instance] if instance else task


def _select_tasks(job: Job, call: Call) -> Sequence[Task]:
    expanded = parse_flag(call.query, "expandParametric", True)
    tasks: list[Task] = []
    for task in job.tasks.values():
        tasks += task.subtasks.values() if expanded and task.subtasks else [task]
    filters = parse_filter(call.query.get("$filter"), _FILTERS)
    states = [
        _parse_state(name) for name in names_in(f"{filters.get('TaskState', '')},{filters.get('TaskStates', '')}")
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
        since = parse_date(filters["ChangeTimeFrom"])
        tasks = [task for task in tasks if task.changed >= since]
    return _sort_tasks(tasks, call.query.get("sorttasksby", ""), parse_flag(call.query, "asc", True))


def _parse_state(name: str) -> str:
    state = canonical_name(name, TASK_STATES)
    if state is None:
        raise RequestRefused(400, f"There is no task state {name}.")
    return state


def _sort_tasks(tasks: Sequence[Task], by: str, ascending: bool) -> list[Task]:
    name = canonical_name(by, tasks[0].to_properties()) if tasks else None
    if name in (None, "TaskId", "Id"):
        return sorted(tasks, key=lambda task: (task.number, task.instance), reverse=not ascending)
    return sort_by_property(tasks, lambda task: task.to_properties()[str(name)], ascending)


def add(head: HeadNode, call: Call) -> Answer:
    job = head.job(call)
    check_may_change(call.user, job.owner)
    if job.is_over or job.state in ("Finishing", "Canceling"):
        raise RequestRefused(400, f"No task can be added to job {job.number} in the {job.state} state.")
    values = parse_properties(parse_property_list(call.body), TASK, "task")
    return Answer(job.add(with_sweep_type(values)).number)


def with_sweep_type(values: dict[str, str]) -> dict[str, str]:
    """Return the task properties `values` with the type ParametricSweep if the older property IsParametric is set;
    otherwise unchanged."""
    return {**values, "Type": "ParametricSweep"} if values.get("IsParametric") == "True" else values


def read(head: HeadNode, call: Call) -> Answer:
    (_, task), wanted = head.task(call), names_in(call.query.get("properties"))
    check_property_names(wanted, task)
    return Answer(to_property_list(select_properties(task, wanted)))


def change(head: HeadNode, call: Call) -> Answer:
    job, task = head.task(call)
    check_may_change(call.user, job.owner)
    values = parse_properties(parse_property_list(call.body), TASK, "task")
    if values and task.state != "Configuring":
        raise RequestRefused(400, f"The task {task.key} cannot be changed in the {task.state} state.")
    task.values.update(with_sweep_type(values))
    task.touch()
    return DONE


def cancel(head: HeadNode, call: Call) -> Answer:
    (job, task), message, forced = head.task(call), parse_message(call.body), parse_flag(call.query, "forced", False)
    check_may_end(call.user, job.owner)
    verbs.cancel_task(head.scheduler, task, message, forced)
    return DONE


def finish(head: HeadNode, call: Call) -> Answer:
    (job, task), message = head.task(call), parse_message(call.body)
    check_may_end(call.user, job.owner)
    verbs.finish_task(head.scheduler, task, message)
    return DONE


def requeue(head: HeadNode, call: Call) -> Answer:
    """Requeue the task or subtask in the request's path. Only the request for a whole task may contain a message. Raise
    RequestRefused if the user may not do this, or the task's state does not permit it."""
    job, task = head.task(call)
    if not task.instance:
        parse_message(call.body)
    check_may_end(call.user, job.owner)
    verbs.requeue_task(task, job.tasks[task.number])
    return DONE
