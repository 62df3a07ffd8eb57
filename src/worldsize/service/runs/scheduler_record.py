"""The scheduler's statement about the end of its job, stored with the run's own records so that the scheduler need not
be queried again, and read as a sentence."""

from __future__ import annotations

import os
import re

from worldsize.common.atomic_files import read_object, write_json
from worldsize.compute.base import Handle
from worldsize.diagnose.evidence import SchedulerRecord
from worldsize.errors import DamagedRun
from worldsize.plan.handle import read_handle
from worldsize.plan.run_paths import RunPaths
from worldsize.service.ownership import is_own
from worldsize.state.records import Observation, Reason, Status

_TELLING = frozenset(
    (
        Reason.TIME_LIMIT,
        Reason.PREEMPTED,
        Reason.NODE_FAILURE,
        Reason.OUT_OF_MEMORY,
        Reason.CANCELLED_BY_USER,
        Reason.SIGNAL,
    )
)
"""The reasons that a scheduler knows by itself. An exit code comes from the agents."""

_TERM_CODE = 128 + 15
"""The exit code with which srun ends all other agents after one has failed."""

_NAMED = re.compile(r"(?:Slurm|HPC Pack): ")


def keep_scheduler_record(paths: RunPaths, handle: Handle | None, observation: Observation) -> None:
    """Store the scheduler's message about the end of this attempt's job in the run directory, if its reason is one that
    a scheduler knows by itself, such as a time limit or a preemption. Nothing is stored for another user's run, or if
    the record cannot be written."""
    if observation.phase != "ended" or observation.reason not in _TELLING or observation.code == _TERM_CODE:
        return
    if (
        _NAMED.match(observation.message)
        and handle is not None
        and "job" in handle
        and os.path.isdir(paths.attempt_dir)
        and is_own(paths)
    ):
        try:
            write_json(paths.scheduler_record, {"message": observation.message, "reason": observation.reason})
        except OSError:
            return


def read_scheduler_record(paths: RunPaths, status: Status) -> SchedulerRecord | None:
    """Return the stored record of the scheduler's message about the end of its job, else one made from `status` if its
    message begins with a scheduler's name. None if there is neither, or the id of the job is unknown."""
    kept = read_object(paths.scheduler_record)
    message, reason = kept.get("message"), kept.get("reason")
    if not isinstance(message, str) or not isinstance(reason, str):
        message, reason = status.message, status.reason
    found = _NAMED.match(message)
    job = _job_of(paths)
    return SchedulerRecord(_words(job, message[found.end() :]), reason, message) if found and job else None


def _job_of(paths: RunPaths) -> str:
    try:
        handle = read_handle(paths)
    except (DamagedRun, OSError):
        return ""
    return str(handle["job"]) if handle and "job" in handle else ""


def _words(job: str, said: str) -> str:
    """Return the scheduler's sentence `said` with the job's id in it: "it reached its time limit" becomes "job 17
    reached its time limit"."""
    found = re.match("(?:it|the job) ", said)
    return f"job {job} {said[found.end() :]}" if found else f"job {job}: {said}"
