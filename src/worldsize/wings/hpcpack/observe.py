"""The conversion of the head node's answers about a job into an observation of a run. Pure, except for functions that
take a client of the head node."""

from __future__ import annotations

from collections.abc import Sequence

from worldsize.compute.base import Handle
from worldsize.errors import WorldsizeError
from worldsize.state.records import Failure, Observation, Reason
from worldsize.state.run_state import RUN_CANCELLED_CODE
from worldsize.wings.hpcpack.failure_cause import TASK_PROPERTIES, find_failure_cause
from worldsize.wings.hpcpack.head.client import HeadNodeClient
from worldsize.wings.hpcpack.head.errors import MissingResource
from worldsize.wings.hpcpack.head.wire import Properties, number_of, time_of
from worldsize.wings.hpcpack.render import job_name
from worldsize.wings.hpcpack.states import state_of

JOB_PROPERTIES = "Id,Name,State,ErrorMessage,RequeueCount,ParentJobIds,SubmitTime,StartTime,EndTime"


def observations(head: HeadNodeClient, handles: Sequence[Handle]) -> list[Observation]:
    """Return the observed state of the HPC Pack job of each handle. One job takes one request, and several jobs take
    one list of the owner's jobs. A job that failed takes one more request. Errors of the head or of the connection
    result in unknown observations."""
    try:
        found = jobs_of(head, [int(handle["job"]) for handle in handles])
    except WorldsizeError as error:
        return [Observation("unknown", message=f"HPC Pack: {error.what}")] * len(handles)
    failed: dict[int, Failure] = {}
    return [_observe_job(head, handle, found[int(handle["job"])], failed) for handle in handles]


def _observe_job(
    head: HeadNodeClient, handle: Handle, row: Properties | None, failed: dict[int, Failure]
) -> Observation:
    job = int(handle["job"])
    seen = observation(row, job, handle["run_id"])
    if row is None or seen.phase != "ended" or row["state"].lower() != "failed":
        return seen
    if job not in failed:
        try:
            share = handle.get("share") or {}
            failed[job] = find_failure_cause(row, tasks_of(head, job), str(share.get("node", "its place")))
        except WorldsizeError as error:
            return Observation(
                "unknown", message=f"HPC Pack: the job failed, and its reason cannot be read now: {error}"
            )
    why = failed[job]
    return seen._replace(reason=why.reason, message=why.message, code=why.code, over=why.reason != Reason.NODE_FAILURE)


def observation(row: Properties | None, job: int, run_id: str) -> Observation:
    """Return the observation of a run that follows from the properties of its HPC Pack job alone. `row` is None if the
    head knows no such job. The phase is "absent" if there is no such job, or if the job's name is not that of the run
    `run_id`."""
    if row is None:
        return Observation("absent", message=f"HPC Pack no longer knows job {job}")
    if row.get("name") not in (None, "", job_name(run_id)):
        return Observation("absent", message=f"HPC Pack's job {job} is another one, named {row['name']}")
    state = state_of(row.get("state", ""))
    seen = Observation(state.phase, restarts=number_of(row.get("requeuecount", "")) or 0, counted=False)
    if state.phase == "queued":
        return seen._replace(message=waiting_words(row), stuck=state.stuck)
    seen = seen._replace(started=time_of(row.get("starttime", "")))
    if state.phase == "ended":
        return _end_observation(seen, row)
    message = "" if state.words == "runs" else f"HPC Pack: it {state.words}"
    return seen._replace(message=message, ending=state.ending)


def waiting_words(row: Properties) -> str:
    """Return the reason why a queued HPC Pack job waits, in words, as far as the head reports it in the job's
    properties."""
    state = state_of(row.get("state", ""))
    words = state.words
    pending = row.get("pendingreason", "") or row.get("errormessage", "")
    if row.get("state", "").lower() == "queued" and not pending:
        parents = row.get("parentjobids", "")
        pending = f"for job {parents} to end" if parents else "for free nodes"
        return f"{words} {pending}"
    if state.stuck:
        words += ", and will not start by itself: submit or cancel it with the cluster's own client"
    return f"{words}: {pending}" if pending else words


def tasks_of(head: HeadNodeClient, job: int, names: str = TASK_PROPERTIES) -> list[Properties]:
    return list(head.read_rows(f"/jobs/{job}/tasks", properties=names))


def _end_observation(seen: Observation, row: Properties) -> Observation:
    word, said = row["state"].lower(), row.get("errormessage", "")
    if word == "canceled":
        message = "HPC Pack: cancelled" + (f": {said}" if said else "")
        return seen._replace(reason=Reason.CANCELLED_BY_USER, code=RUN_CANCELLED_CODE, message=message, over=True)
    if word == "finished":
        if said:
            seen = seen._replace(reason=Reason.CANCELLED_BY_USER, message=f"HPC Pack: finished: {said}")
        return seen._replace(code=0, over=True)
    return seen._replace(code=1, message=f"HPC Pack: {said}", over=True)


def jobs_of(head: HeadNodeClient, numbers: Sequence[int]) -> dict[int, Properties | None]:
    """Return the properties of each HPC Pack job, by number; None for a job that the head does not know (any more).
    Errors of the requests are raised as they are."""
    wanted = list(dict.fromkeys(numbers))
    found = _read_job_list(head, wanted) if len(wanted) > 1 else {}
    for job in wanted:
        if job not in found:
            try:
                found[job] = head.read_job(job)
            except MissingResource:
                found[job] = None
    return found


def _read_job_list(head: HeadNodeClient, wanted: Sequence[int]) -> dict[int, Properties | None]:
    """Return the properties of those of the wanted jobs that the list of the account's own jobs contains, by number.
    The list is read from the newest job on, until all wanted jobs are found, or only older ones follow."""
    left, oldest = set(wanted), min(wanted)
    found: dict[int, Properties | None] = {}
    asked = {"properties": JOB_PROPERTIES, "owner": head.access.owner, "sortJobsBy": "Id", "asc": False}
    for row in head.read_rows("/jobs", **asked):
        job = number_of(row.get("id", "")) or 0
        if job in left:
            found[job] = row
            left.remove(job)
        if not left or job < oldest:
            break
    return found
