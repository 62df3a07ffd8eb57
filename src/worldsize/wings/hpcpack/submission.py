"""The submission of jobs to the head node, exactly once, however bad the connection is.

A job does nothing until it is submitted, so an error before that leaves no more than an entry in a list.
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
"""Seconds before each search for the effect of a request without an answer: the head may still be working on it."""

ACCEPTANCE_PAUSES = (0.4, 1.2)
"""Seconds before each check of whether the head accepts a submitted job."""

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
    """Submit all of the HPC Pack jobs `wanted`, or none; return their numbers, in order. `parents` receives the numbers
    of the jobs before one, and returns those that must end before it starts. `on_submitted` receives all numbers as
    soon as all are submitted.

    Raise SubmitRejected if a job is refused for good, also if the head refuses it a moment later. Raise SubmitAgain if
    nothing was submitted. An interrupt leaves no jobs either.
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
    """Create an HPC Pack job on the head node, append its number to `jobs` as soon as it exists, and add its tasks to
    the job, each once. `parents` are the jobs that must end first. Raise SubmitAgain if too many answers were lost."""
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
        _give_up(head, jobs.pop())  # a task that was considered lost was added twice
    raise SubmitAgain("too many answers of the head node were lost", head.access.url, "try again")


def _do_once(act: Callable[[], Any], find: Callable[[], Any], sleep: Sleep) -> Any:
    """Return the result of `act`, which sends a request to the head node. After a lost answer, `find` looks twice for
    the effect of the request, and its result is returned if it is not empty. Otherwise `act` is tried again. Raise
    LostAnswer if all rounds fail."""
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
    """Return the number of the newest HPC Pack job of this name that is still being configured, among this user's
    newest jobs; None if there is none."""
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
    """Submit a created HPC Pack job, so that it is queued. The password is sent only if the head reports that it has
    none for this account."""
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
    """Raise SubmitRejected if the head node refuses a submitted HPC Pack job within about two seconds. A head that no
    longer answers is no error: later observations find the state of the job."""
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
    """Requeue an HPC Pack job on the head node for the attempt with the number `attempt`. Raise SubmitRejected with the
    head's own message, or SubmitAgain.

    The agents find the number of their attempt themselves. A variable of the job, which not every head accepts, gives
    it to them earlier than some file systems do. A job whose ranks have ended may still be ending, and the head does
    not requeue it then. The function waits for its end, 30 s at most.
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
