"""What a scheduler said of its job when the run had ended: kept beside the run's own records, so that nobody has to ask
again, and read as a sentence."""

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
"""What a scheduler knows by itself; an exit code is the agents'."""

_TERM_CODE = 128 + 15
"""With this srun ends all other agents where one has failed."""

_NAMED = re.compile(r"(?:Slurm|HPC Pack): ")


def keep_scheduler_record(paths: RunPaths, handle: Handle | None, observation: Observation) -> None:
    """Keep what the scheduler says of the end of this attempt's job, where that tells something; nothing of another's
    run, nor where it cannot be written."""
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
    """Return the record that was kept; else what the status says in a scheduler's name. None for neither."""
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
    """ "it reached its time limit" as "job 17 reached its time limit"."""
    found = re.match("(?:it|the job) ", said)
    return f"job {job} {said[found.end() :]}" if found else f"job {job}: {said}"
