"""The answers about jobs."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize_hpcpack_simulator.api.auth import check_may_change, check_may_end, is_same_user
from worldsize_hpcpack_simulator.api.head import DONE, Answer, Call, HeadNode, parse_message
from worldsize_hpcpack_simulator.api.job_xml import job_from_xml
from worldsize_hpcpack_simulator.api.paging import parse_filter, parse_flag, sort_by_property
from worldsize_hpcpack_simulator.catalog import JOB, canonical_name, check_settable, parse_properties
from worldsize_hpcpack_simulator.scheduler import verbs
from worldsize_hpcpack_simulator.scheduler.jobs import LIVE, Job, Task, select_properties
from worldsize_hpcpack_simulator.scheduler.validation import TEMPLATES
from worldsize_hpcpack_simulator.wire import (
    RequestRefused,
    names_in,
    parse_date,
    parse_property_list,
    to_objects,
    to_property_list,
)

JOB_STATES = (
    *("Configuring", "Submitted", "Validating", "ExternalValidation", "Queued", "Running", "Finishing"),
    *("Finished", "Failed", "Canceled", "Canceling"),
)
_LISTED = ["Id", "Owner", "Name", "State", "Priority"]


def templates(head: HeadNode, call: Call) -> Answer:
    return Answer(list(TEMPLATES))


def list_jobs(head: HeadNode, call: Call) -> Answer:
    """Answer a request for the list of jobs, with the properties that the query names. With `nodeNames` these are all
    jobs that run on those nodes, in one answer; otherwise they are filtered, sorted, and split into pages."""
    jobs = head.scheduler.jobs
    if call.query.get("nodenames"):
        there = {name.lower() for name in names_in(call.query["nodenames"])}
        return Answer(
            to_objects(select_properties(job, []) for job in jobs.values() if there & set(_nodes_in_use(job)))
        )
    wanted = names_in(call.query.get("properties")) or _LISTED
    check_property_names(wanted, Job(0, "", {}))
    page = head.pages.page("jobs", call.query, lambda: [(job.number,) for job in _select_jobs(head, call)])
    return Answer(to_objects(select_properties(jobs[number], wanted) for (number,) in page.keys), headers=page.headers)


def _nodes_in_use(job: Job) -> list[str]:
    return [name.lower() for task in job.runnable_tasks() if task.state in LIVE for name in task.nodes]


def _select_jobs(head: HeadNode, call: Call) -> Sequence[Job]:
    jobs = list(head.scheduler.jobs.values())
    filters = parse_filter(call.query.get("$filter"), ("JobState", "NodeGroup", "ChangeTimeFrom"))
    if call.query.get("owner"):
        jobs = [job for job in jobs if is_same_user(job.owner, call.query["owner"])]
    if "JobState" in filters:
        state = canonical_name(filters["JobState"], JOB_STATES)
        if state is None:
            raise RequestRefused(400, f"There is no job state {filters['JobState']}.")
        jobs = [job for job in jobs if job.state == state]
    if "NodeGroup" in filters:
        jobs = [job for job in jobs if filters["NodeGroup"].lower() in map(str.lower, job.names("NodeGroups"))]
    if "ChangeTimeFrom" in filters:
        since = parse_date(filters["ChangeTimeFrom"])
        jobs = [job for job in jobs if job.changed >= since]
    return sort_jobs(jobs, call.query.get("sortjobsby", ""), parse_flag(call.query, "asc", True))


def sort_jobs(items: Sequence[Job], by: str, ascending: bool) -> list[Job]:
    name = canonical_name(by, items[0].to_properties()) if items else None
    return sort_by_property(
        items, lambda job: str(job.number) if name in (None, "Id") else job.to_properties()[str(name)], ascending
    )


def check_property_names(wanted: Sequence[str], example: Job | Task) -> None:
    """Raise RequestRefused if one of the property names `wanted` does not exist for jobs or tasks, of which `example`
    is one."""
    shown = example.to_properties()
    for name in wanted:
        if canonical_name(name, shown) is None:
            raise RequestRefused(400, f"There is no property {name}.")


def create(head: HeadNode, call: Call) -> Answer:
    values = parse_properties(parse_property_list(call.body), JOB, "job")
    values.pop("Owner", None)
    return Answer(head.scheduler.add(call.user.name, values).number)


def create_from_xml(head: HeadNode, call: Call) -> Answer:
    if not isinstance(call.body, str):
        raise RequestRefused(400, "The request body is not a string that holds XML.")
    return Answer(job_from_xml(head.scheduler, call.user.name, call.body).number)


def read(head: HeadNode, call: Call) -> Answer:
    job, wanted = head.job(call), names_in(call.query.get("properties"))
    check_property_names(wanted, job)
    return Answer(to_property_list({**select_properties(job, wanted), **_children(head, job, wanted)}))


def _children(head: HeadNode, job: Job, wanted: Sequence[str]) -> dict[str, str]:
    """Return the property "ChildJobIds" with the ids of the jobs that wait for this job, if it is `wanted` or no
    properties are named; otherwise an empty mapping."""
    if wanted and "childjobids" not in [name.lower() for name in wanted]:
        return {}
    found = [each.number for each in head.scheduler.jobs.values() if str(job.number) in each.names("ParentJobIds")]
    return {"ChildJobIds": ",".join(map(str, found))}


def phase(job: Job) -> str:
    """Return the phase of a job, which determines the properties that may be changed: "configuring", "queued",
    "running", "over"."""
    if job.state == "Configuring":
        return "configuring"
    return "queued" if job.state in verbs.WAITING else "running" if job.state == "Running" else "over"


def change(head: HeadNode, call: Call) -> Answer:
    job = head.job(call)
    check_may_change(call.user, job.owner)
    values = parse_properties(parse_property_list(call.body), JOB, "job")
    values.pop("Owner", None)
    check_settable(values, JOB, phase(job), job.state)
    job.values.update(values)
    job.touch()
    return DONE


def submit(head: HeadNode, call: Call) -> Answer:
    """Submit the job in the request's path to the scheduler. The body may set properties of the job, and contain its
    user's name and password. Raise RequestRefused if the user may not do this, or the credentials are missing or wrong.
    """
    job, given = head.job(call), parse_property_list(call.body)
    check_may_change(call.user, job.owner)
    password = "".join(given.pop(name) for name in list(given) if name.lower() == "password")
    values = parse_properties(given, JOB, "job")
    name = values.get("UserName") or job.value("UserName") or job.owner
    if password and not head.users.is_password_of(name, password):
        raise RequestRefused(403, f"The password of {name} is wrong.")
    if not password and not head.options.cached:
        raise RequestRefused(403, f"The credentials of {name} are not cached: set UserName and Password.")
    verbs.submit(head.scheduler, job)
    values.pop("Owner", None)
    job.values.update(values)
    return DONE


def cancel(head: HeadNode, call: Call) -> Answer:
    job, message, forced = head.job(call), parse_message(call.body), parse_flag(call.query, "forced", False)
    check_may_end(call.user, job.owner)
    verbs.cancel_job(head.scheduler, job, message, forced)
    return DONE


def finish(head: HeadNode, call: Call) -> Answer:
    job, message = head.job(call), parse_message(call.body)
    check_may_end(call.user, job.owner)
    verbs.finish_job(head.scheduler, job, message)
    return DONE


def requeue(head: HeadNode, call: Call) -> Answer:
    job = head.job(call)
    check_may_end(call.user, job.owner)
    verbs.requeue_job(head.scheduler, job)
    return DONE
