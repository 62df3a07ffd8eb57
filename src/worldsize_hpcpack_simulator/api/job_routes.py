"""Answers about jobs."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize_hpcpack_simulator.api.auth import may_change, may_end, same
from worldsize_hpcpack_simulator.api.head import DONE, Answer, Call, Head, message_of
from worldsize_hpcpack_simulator.api.job_xml import job_from_xml
from worldsize_hpcpack_simulator.api.paging import clauses, ordered, truth
from worldsize_hpcpack_simulator.catalog import JOB, canonical, checked, settable
from worldsize_hpcpack_simulator.scheduler import verbs
from worldsize_hpcpack_simulator.scheduler.jobs import LIVE, Job, Task, picked
from worldsize_hpcpack_simulator.scheduler.validation import TEMPLATES
from worldsize_hpcpack_simulator.wire import Refused, listed, moment_of, names_in, objects, properties_of

JOB_STATES = (
    *("Configuring", "Submitted", "Validating", "ExternalValidation", "Queued", "Running", "Finishing"),
    *("Finished", "Failed", "Canceled", "Canceling"),
)
_LISTED = ["Id", "Owner", "Name", "State", "Priority"]


def templates(head: Head, call: Call) -> Answer:
    return Answer(list(TEMPLATES))


def list_jobs(head: Head, call: Call) -> Answer:
    """With `nodeNames` all that run there, in one answer; else filtered, sorted, and in pages."""
    jobs = head.scheduler.jobs
    if call.query.get("nodenames"):
        there = {name.lower() for name in names_in(call.query["nodenames"])}
        return Answer(objects(picked(job, []) for job in jobs.values() if there & set(_running_on(job))))
    wanted = names_in(call.query.get("properties")) or _LISTED
    known_properties(wanted, Job(0, "", {}))
    page = head.pages.page("jobs", call.query, lambda: [(job.number,) for job in _chosen(head, call)])
    return Answer(objects(picked(jobs[number], wanted) for (number,) in page.keys), headers=page.headers)


def _running_on(job: Job) -> list[str]:
    return [name.lower() for task in job.runnable() if task.state in LIVE for name in task.nodes]


def _chosen(head: Head, call: Call) -> Sequence[Job]:
    jobs = list(head.scheduler.jobs.values())
    filters = clauses(call.query.get("$filter"), ("JobState", "NodeGroup", "ChangeTimeFrom"))
    if call.query.get("owner"):
        jobs = [job for job in jobs if same(job.owner, call.query["owner"])]
    if "JobState" in filters:
        state = canonical(filters["JobState"], JOB_STATES)
        if state is None:
            raise Refused(400, "There is no job state %s." % filters["JobState"])
        jobs = [job for job in jobs if job.state == state]
    if "NodeGroup" in filters:
        jobs = [job for job in jobs if filters["NodeGroup"].lower() in map(str.lower, job.names("NodeGroups"))]
    if "ChangeTimeFrom" in filters:
        since = moment_of(filters["ChangeTimeFrom"])
        jobs = [job for job in jobs if job.changed >= since]
    return sort(jobs, call.query.get("sortjobsby", ""), truth(call.query, "asc", True))


def sort(items: Sequence[Job], by: str, ascending: bool) -> list[Job]:
    name = canonical(by, items[0].shown()) if items else None
    return ordered(items, lambda job: str(job.number) if name in (None, "Id") else job.shown()[str(name)], ascending)


def known_properties(wanted: Sequence[str], example: Job | Task) -> None:
    """Refused: there is no such property."""
    shown = example.shown()
    for name in wanted:
        if canonical(name, shown) is None:
            raise Refused(400, "There is no property %s." % name)


def create(head: Head, call: Call) -> Answer:
    values = checked(properties_of(call.body), JOB, "job")
    values.pop("Owner", None)
    return Answer(head.scheduler.add(call.user.name, values).number)


def create_from_xml(head: Head, call: Call) -> Answer:
    if not isinstance(call.body, str):
        raise Refused(400, "The request body is not a string that holds XML.")
    return Answer(job_from_xml(head.scheduler, call.user.name, call.body).number)


def read(head: Head, call: Call) -> Answer:
    job, wanted = head.job(call), names_in(call.query.get("properties"))
    known_properties(wanted, job)
    return Answer(listed({**picked(job, wanted), **_children(head, job, wanted)}))


def _children(head: Head, job: Job, wanted: Sequence[str]) -> dict[str, str]:
    """The ids of the jobs that wait for this one, where they are asked for."""
    if wanted and "childjobids" not in [name.lower() for name in wanted]:
        return {}
    found = [each.number for each in head.scheduler.jobs.values() if str(job.number) in each.names("ParentJobIds")]
    return {"ChildJobIds": ",".join(map(str, found))}


def phase(job: Job) -> str:
    """How much of a job may be changed: "configuring", "queued", "running", "over"."""
    if job.state == "Configuring":
        return "configuring"
    return "queued" if job.state in verbs.WAITING else "running" if job.state == "Running" else "over"


def change(head: Head, call: Call) -> Answer:
    job = head.job(call)
    may_change(call.user, job.owner)
    values = checked(properties_of(call.body), JOB, "job")
    values.pop("Owner", None)
    settable(values, JOB, phase(job), job.state)
    job.values.update(values)
    job.touch()
    return DONE


def submit(head: Head, call: Call) -> Answer:
    """The body may set properties of the job, and bear its user's name and password."""
    job, given = head.job(call), properties_of(call.body)
    may_change(call.user, job.owner)
    password = "".join(given.pop(name) for name in list(given) if name.lower() == "password")
    values = checked(given, JOB, "job")
    name = values.get("UserName") or job.value("UserName") or job.owner
    if password and not head.users.knows(name, password):
        raise Refused(403, "The password of %s is wrong." % name)
    if not password and not head.options.cached:
        raise Refused(403, "The credentials of %s are not cached: set UserName and Password." % name)
    verbs.submit(head.scheduler, job)
    values.pop("Owner", None)
    job.values.update(values)
    return DONE


def cancel(head: Head, call: Call) -> Answer:
    job, message, forced = head.job(call), message_of(call.body), truth(call.query, "forced", False)
    may_end(call.user, job.owner)
    verbs.cancel_job(head.scheduler, job, message, forced)
    return DONE


def finish(head: Head, call: Call) -> Answer:
    job, message = head.job(call), message_of(call.body)
    may_end(call.user, job.owner)
    verbs.finish_job(head.scheduler, job, message)
    return DONE


def requeue(head: Head, call: Call) -> Answer:
    job = head.job(call)
    may_end(call.user, job.owner)
    verbs.requeue_job(head.scheduler, job)
    return DONE


def read_environ(head: Head, call: Call) -> Answer:
    return Answer(listed(all_or_named(head.job(call).environ, call)))


def set_environ(head: Head, call: Call) -> Answer:
    job = head.job(call)
    may_change(call.user, job.owner)
    job.environ.update(variables_of(call.body))
    return DONE


def read_custom(head: Head, call: Call) -> Answer:
    return Answer(listed(named(head.job(call).custom, call)))


def set_custom(head: Head, call: Call) -> Answer:
    job = head.job(call)
    may_change(call.user, job.owner)
    job.custom.update(properties_of(call.body))
    return DONE


def all_or_named(values: dict[str, str], call: Call) -> dict[str, str]:
    """Environment variables: those that are named and do not exist are ""."""
    wanted = names_in(call.query.get("names"))
    return {name: values.get(name, "") for name in wanted} if wanted else values


def named(values: dict[str, str], call: Call) -> dict[str, str]:
    """Custom properties: those that are named and exist."""
    wanted = [name.lower() for name in names_in(call.query.get("names"))]
    return {name: value for name, value in values.items() if not wanted or name.lower() in wanted}


def variables_of(body: object) -> dict[str, str]:
    """Refused: a name that no environment variable can have."""
    values = properties_of(body)
    for name in values:
        if "=" in name:
            raise Refused(400, "%r is no name of an environment variable." % name)
    return values
