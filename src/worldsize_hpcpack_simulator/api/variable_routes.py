"""The answers about the environment variables and the custom properties of jobs and tasks."""

from __future__ import annotations

from worldsize_hpcpack_simulator.api.auth import check_may_change
from worldsize_hpcpack_simulator.api.head import DONE, Answer, Call, HeadNode
from worldsize_hpcpack_simulator.scheduler.jobs import Job, Task
from worldsize_hpcpack_simulator.wire import RequestRefused, names_in, parse_property_list, to_property_list


def read_environ(head: HeadNode, call: Call) -> Answer:
    return Answer(to_property_list(_select_variables(_find_item(head, call)[1].environ, call)))


def set_environ(head: HeadNode, call: Call) -> Answer:
    job, item = _find_item(head, call)
    check_may_change(call.user, job.owner)
    item.environ.update(_parse_variables(call.body))
    return DONE


def read_custom(head: HeadNode, call: Call) -> Answer:
    return Answer(to_property_list(_select_custom(_find_item(head, call)[1].custom, call)))


def set_custom(head: HeadNode, call: Call) -> Answer:
    job, item = _find_item(head, call)
    check_may_change(call.user, job.owner)
    item.custom.update(parse_property_list(call.body))
    return DONE


def _find_item(head: HeadNode, call: Call) -> tuple[Job, Job | Task]:
    """Return the job in the request's path, and the item whose variables are meant: the job itself, or one of its tasks
    if the path names it."""
    if "taskId" in call.path:
        return head.task(call)
    job = head.job(call)
    return job, job


def _select_variables(values: dict[str, str], call: Call) -> dict[str, str]:
    """Return those of a job's or task's environment variables `values` that the query names, "" for one that does not
    exist; all variables if the query names none."""
    wanted = names_in(call.query.get("names"))
    return {name: values.get(name, "") for name in wanted} if wanted else values


def _select_custom(values: dict[str, str], call: Call) -> dict[str, str]:
    """Return those of a job's or task's custom properties `values` that the query names and that exist; all properties
    if the query names none."""
    wanted = [name.lower() for name in names_in(call.query.get("names"))]
    return {name: value for name, value in values.items() if not wanted or name.lower() in wanted}


def _parse_variables(body: object) -> dict[str, str]:
    """Return the environment variables in a request's body, as a mapping of name to value. Raise RequestRefused if a
    variable cannot have this name."""
    values = parse_property_list(body)
    for name in values:
        if "=" in name:
            raise RequestRefused(400, f"{name!r} is not an environment variable name.")
    return values
