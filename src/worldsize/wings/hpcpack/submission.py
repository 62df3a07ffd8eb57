"""Giving jobs to the head node exactly once, however bad the connection is.

A job does nothing until it is submitted, so that whatever went wrong before leaves no more than an entry in a list.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple

from worldsize.errors import SubmitAgain, SubmitRejected, WorldsizeError
from worldsize.wings.hpcpack.head.client import FOLLOW_UP_PATIENCE, HeadNodeClient
from worldsize.wings.hpcpack.head.errors import LostAnswer, MissingResource, hint_for
from worldsize.wings.hpcpack.head.wire import number_of, to_property_list
from worldsize.wings.hpcpack.observe import tasks_of
from worldsize.wings.hpcpack.render import Properties, Requests
from worldsize.wings.hpcpack.states import ACCEPTED_STATES

SEARCH_PAUSES = (1.0, 3.0)
"""Seconds before each look for what a lost reply may have created: the head may still be at it."""

ACCEPTANCE_PAUSES = (0.4, 1.2)
"""Seconds before each look at whether the head finds a submitted job right."""

_ROUNDS = 3
_NEWEST = 200
_CREDENTIALS = re.compile(r"credential|password|log ?on failure", re.IGNORECASE)

Sleep = Callable[[float], None]


class NewJob(NamedTuple):
    """A job to be made, and which of those before it in the same submission have to end before it starts."""

    made: Requests
    parents: Callable[[Sequence[int]], Sequence[int]] = lambda jobs: ()


def submit_all(
    head: HeadNodeClient, wanted: Sequence[NewJob], submitted: Callable[[list[int]], None], sleep: Sleep = time.sleep
) -> list[int]:
    """The numbers of all jobs, in their order: all are submitted, or none. `submitted` is told as soon as they are.

    SubmitRejected: refused for good, also where the head says so a moment later. SubmitAgain: nothing was submitted.
    An interrupt leaves none of them, either.
    """
    jobs: list[int] = []
    try:
        for each in wanted:
            jobs.append(_create_with_tasks(head, each.made, each.parents(jobs), sleep))
        for job in jobs:
            _submit(head, job, sleep)
        submitted(jobs)
        _check_accepted(head, jobs[0], sleep)
    except BaseException as error:
        if not isinstance(error, WorldsizeError):
            head.limit_patience(FOLLOW_UP_PATIENCE)
        for job in reversed(jobs):
            _give_up(head, job)
        raise
    return jobs


def _create_with_tasks(head: HeadNodeClient, made: Requests, parents: Sequence[int], sleep: Sleep) -> int:
    """A configured job with its tasks, each once."""
    values = {**made.job, "ParentJobIds": ",".join(map(str, parents))} if parents else made.job
    for _ in range(_ROUNDS):
        job = _create_job(head, values, sleep)
        try:
            lost = [_add_task(head, job, task, sleep) for task in made.tasks]
            if not any(lost) or sorted(_task_names(head, job)) == sorted(task["Name"] for task in made.tasks):
                return job
        except WorldsizeError:
            _give_up(head, job)
            raise
        _give_up(head, job)  # a task that was taken for lost came twice
    raise SubmitAgain("the connection to the head node loses too many answers", head.access.url, "try again")


def _create_job(head: HeadNodeClient, values: Properties, sleep: Sleep) -> int:
    """After an answer that was lost the job is looked for by its name, twice, before it is tried again."""
    for _ in range(_ROUNDS):
        try:
            return _job_number(head.post("/jobs", to_property_list(values)), head)
        except LostAnswer as error:
            trouble = error
        for pause in SEARCH_PAUSES:
            sleep(pause)
            found = find_jobs(head, values["Name"])
            if found:
                return found[0]
    raise trouble


def find_jobs(head: HeadNodeClient, name: str) -> list[int]:
    """This user's jobs of this name that are being configured, the newest first; of their newest jobs."""
    asked = {"properties": "Id,Name,State", "owner": head.access.owner, "sortJobsBy": "Id", "asc": False}
    newest = islice(head.read_rows("/jobs", **asked), _NEWEST)
    found = [row for row in newest if row.get("name") == name and row.get("state", "").lower() == "configuring"]
    return sorted((number_of(row.get("id", "")) or 0 for row in found), reverse=True)


def _add_task(head: HeadNodeClient, job: int, task: Properties, sleep: Sleep) -> bool:
    """Whether an answer was lost on the way."""
    lost = False
    for _ in range(_ROUNDS):
        try:
            head.post(f"/jobs/{job}/tasks", to_property_list(task))
            return lost
        except LostAnswer as error:
            trouble, lost = error, True
        for pause in SEARCH_PAUSES:
            sleep(pause)
            if task["Name"] in _task_names(head, job):
                return lost
    raise trouble


def _task_names(head: HeadNodeClient, job: int) -> list[str]:
    return [task.get("name", "") for task in tasks_of(head, job, "TaskId,Name")]


def _submit(head: HeadNodeClient, job: int, sleep: Sleep) -> None:
    """With the password only where the head says that it has none of ours."""
    path = f"/jobs/{job}/submit"
    for _ in range(_ROUNDS):
        try:
            head.post(path)
            return
        except LostAnswer as error:
            trouble = error
        except SubmitRejected as error:
            if not _CREDENTIALS.search(error.what) or head.access.as_user:
                raise
            head.post(path, to_property_list({"UserName": head.access.user, "Password": head.password()}))
            return
        for pause in SEARCH_PAUSES:
            sleep(pause)
            if head.read_job(job).get("state", "").lower() != "configuring":
                return
    raise trouble


def _check_accepted(head: HeadNodeClient, job: int, sleep: Sleep) -> None:
    """SubmitRejected for a job that the head does not find right. Once it cannot be asked, `observe` will say so."""
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
            what = "HPC Pack refused the job: {}".format(said or "it says no more")
            raise SubmitRejected(what, f"HPC Pack job {job}", hint_for(said))


def _give_up(head: HeadNodeClient, job: int) -> None:
    try:
        head.post(f"/jobs/{job}/cancel", "worldsize could not submit it", forced=True)
    except WorldsizeError:
        pass  # it was refused, or is only configured, or the head is away: it does not start by itself


def _job_number(answer: object, head: HeadNodeClient) -> int:
    try:
        return int(str(answer))
    except ValueError:
        raise SubmitRejected(f"a job's number was expected, and not {answer!r:.60}", head.access.url) from None
