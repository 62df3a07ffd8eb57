"""Submit jobs to the head node exactly once, however bad the connection is.

A job does nothing until it is submitted, so that whatever went wrong before leaves no more than an entry in a list.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from worldsize.compute.http.errors import LostAnswer
from worldsize.errors import SubmitAgain, SubmitRejected, WorldsizeError
from worldsize.wings.hpcpack.head.client import FOLLOW_UP_PATIENCE, REQUEUE_PATIENCE, HeadNodeClient
from worldsize.wings.hpcpack.head.errors import MissingResource, hint_for
from worldsize.wings.hpcpack.head.wire import Properties, number_of, to_property_list
from worldsize.wings.hpcpack.observe import tasks_of
from worldsize.wings.hpcpack.render import ATTEMPT, Requests
from worldsize.wings.hpcpack.states import ACCEPTED_STATES, state_of

SEARCH_PAUSES = (1.0, 3.0)
"""Seconds before each look for what a request without an answer may have created: the head may still be at it."""

ACCEPTANCE_PAUSES = (0.4, 1.2)
"""Seconds before each look at whether the head accepts a submitted job."""

_REQUEUE_EVERY = 0.3
_ROUNDS = 3
_NEWEST = 200
_CREDENTIALS = re.compile(r"credential|password|log ?on failure", re.IGNORECASE)

Sleep = Callable[[float], None]


def submit_all(
    head: HeadNodeClient,
    wanted: Sequence[Requests],
    parents: Callable[[Sequence[int]], Sequence[int]],
    on_submitted: Callable[[list[int]], None],
    sleep: Sleep = time.sleep,
) -> list[int]:
    """Submit all jobs, or none; return their numbers, in order. `parents` gets the numbers of the jobs before one, and
    returns those that have to end before it starts; `on_submitted` gets all numbers as soon as all are submitted.

    SubmitRejected: refused for good, also where the head says so a moment later. SubmitAgain: nothing was submitted.
    An interrupt leaves none of them, either.
    """
    jobs: list[int] = []
    try:
        for made in wanted:
            _create_with_tasks(head, made, parents(jobs), jobs, sleep)
        for job in jobs:
            _submit(head, job, sleep)
        on_submitted(jobs)
        _check_accepted(head, jobs[0], sleep)
    except BaseException as error:
        if not isinstance(error, WorldsizeError):
            head.limit_patience(FOLLOW_UP_PATIENCE)
        for job in reversed(jobs):
            _give_up(head, job)
        raise
    return jobs


def _create_with_tasks(
    head: HeadNodeClient, made: Requests, parents: Sequence[int], jobs: list[int], sleep: Sleep
) -> None:
    """Create a job, add its number to `jobs` as soon as it exists, and add its tasks to the job, each once."""
    values = {**made.job, "ParentJobIds": ",".join(map(str, parents))} if parents else made.job
    for _ in range(_ROUNDS):
        job = _do_once(lambda: _create_job(head, values), lambda: _find_job(head, values["Name"]), sleep)
        jobs.append(job)
        before = head.sent
        for task in made.tasks:
            _add_task(head, job, task, sleep)
        names = sorted(task["Name"] for task in made.tasks)
        if head.sent - before == len(names) or sorted(_task_names(head, job)) == names:
            return
        _give_up(head, jobs.pop())  # a task that was taken for lost came twice
    raise SubmitAgain("too many answers of the head node were lost", head.access.url, "try again")


def _do_once(act: Callable[[], Any], find: Callable[[], Any], sleep: Sleep) -> Any:
    """Return what `act` returns. After a lost answer, `find` looks twice for what came of the request, and what it
    finds is returned; where that is nothing, `act` is tried again."""
    for _ in range(_ROUNDS):
        try:
            return act()
        except LostAnswer as error:
            trouble = error
        for pause in SEARCH_PAUSES:
            sleep(pause)
            found = find()
            if found:
                return found
    raise trouble


def _create_job(head: HeadNodeClient, values: Properties) -> int:
    answer = head.post("/jobs", to_property_list(values))
    try:
        return int(str(answer))
    except ValueError:
        raise SubmitRejected(f"a job's number was expected, and not {answer!r:.60}", head.access.url) from None


def _find_job(head: HeadNodeClient, name: str) -> int | None:
    """Find the newest job of this name that is still being configured, among this user's newest jobs."""
    asked = {"properties": "Id,Name,State", "owner": head.access.owner, "sortJobsBy": "Id", "asc": False}
    newest = islice(head.read_rows("/jobs", **asked), _NEWEST)
    found = [row for row in newest if row.get("name") == name and row.get("state", "").lower() == "configuring"]
    return max((number_of(row.get("id", "")) or 0 for row in found), default=None)


def _add_task(head: HeadNodeClient, job: int, task: Properties, sleep: Sleep) -> None:
    path = f"/jobs/{job}/tasks"
    _do_once(lambda: head.post(path, to_property_list(task)), lambda: task["Name"] in _task_names(head, job), sleep)


def _task_names(head: HeadNodeClient, job: int) -> list[str]:
    return [task.get("name", "") for task in tasks_of(head, job, "TaskId,Name")]


def _submit(head: HeadNodeClient, job: int, sleep: Sleep) -> None:
    """Submit a job; with the password only where the head says that it has none of this account."""
    path = f"/jobs/{job}/submit"

    def submit() -> None:
        try:
            head.post(path)
        except SubmitRejected as error:
            if not _CREDENTIALS.search(error.what) or head.access.as_user:
                raise
            head.post(path, to_property_list({"UserName": head.access.user, "Password": head.password()}))

    _do_once(submit, lambda: head.read_job(job).get("state", "").lower() != "configuring", sleep)


def _check_accepted(head: HeadNodeClient, job: int, sleep: Sleep) -> None:
    """SubmitRejected for a job that the head does not accept. A head that does not answer any more raises nothing:
    later observations find out."""
    head.limit_patience(FOLLOW_UP_PATIENCE)
    for pause in ACCEPTANCE_PAUSES:
        sleep(pause)
        try:
            row = head.read_job(job)
        except (SubmitAgain, MissingResource):
            return
        state, said = row.get("state", ""), row.get("errormessage", "")
        if state in ACCEPTED_STATES or row.get("starttime"):
            return
        if state in ("Failed", "Configuring"):
            what = "HPC Pack refused the job: {}".format(said or "it gives no reason")
            raise SubmitRejected(what, f"HPC Pack job {job}", hint_for(said))


def requeue(head: HeadNodeClient, job: int, attempt: int) -> None:
    """Put a job back into the head's queue. SubmitRejected in the head's words; SubmitAgain. Agents find out which
    attempt they begin; a variable of the job, which not every head takes, says so sooner than every file system.

    A job whose ranks have ended may still be ending, in which the head requeues none: that is waited for, 30 s at most.
    """
    try:
        head.post(f"/jobs/{job}/envVariables", to_property_list({ATTEMPT: str(attempt)}))
    except SubmitRejected:
        pass
    deadline = time.monotonic() + REQUEUE_PATIENCE
    ending = True
    while True:
        try:
            head.post(f"/jobs/{job}/requeue")
            return
        except SubmitRejected:
            if not ending or time.monotonic() > deadline:
                raise
        ending = state_of(head.read_job(job).get("state", "")).ending
        if ending:
            time.sleep(_REQUEUE_EVERY)


def _give_up(head: HeadNodeClient, job: int) -> None:
    try:
        head.post(f"/jobs/{job}/cancel", "worldsize could not submit it", forced=True)
    except WorldsizeError:
        pass  # it was refused, or is only configured, or the head is away: it does not start by itself
