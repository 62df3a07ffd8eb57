"""The knowledge of accounting (sacct) about jobs: jobs that slurmctld has forgotten, and values that only accounting
has.

Every attempt of a restarted job is a separate record, shown with --duplicates. Job numbers are used again after a
while, so records with another name belong to another job. Steps are read too: a step may have run out of memory in a
job whose state is only FAILED. sacct lags behind by seconds, and shows nothing if accounting is off, so a missing
record proves nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.compute.slurm.job_rows import (
    ACCOUNTS,
    SEPARATOR,
    JobRow,
    exact_seconds_of,
    id_batches,
    ids_of,
    limit_of,
    number_of,
    time_of,
    values_of,
)
from worldsize.compute.slurm.states import full_name, state_of
from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected

COLUMNS = (
    "JobID", "State", "ExitCode", "Reason", "JobName", "Partition", "NNodes", "NodeList", "Submit", "Start", "End",
    "ElapsedRaw", "TimelimitRaw", "TotalCPU", "CPUTimeRAW",
)  # fmt: skip
"""Columns that all versions from 20.11 to 26.05 have ("Restarts" was added in 24.11, "Reserved" was removed in
23.02)."""

_PLACEHOLDER_NAME = "allocation"
"""The name that slurmdbd uses, for some seconds and without a partition, for a job whose end was reported to it before
its start (as_mysql_job_start; seen with 22.05 for jobs of less than a second)."""


class AccountingRecord(NamedTuple):
    """A record of accounting: one attempt of one job.

    row        as squeue's, with this attempt's times
    cpu_used   seconds of CPU time that its processes took; None while it is not known
    cpu_held   seconds × CPUs that it held
    """

    row: JobRow
    cpu_used: float | None
    cpu_held: int


def account_rows(ids: Iterable[str], run: Callable[[Sequence[str]], str]) -> dict[str, JobRow]:
    """Return the newest attempt of each of the Slurm jobs `ids` that accounting (sacct) knows, as a dictionary from job
    id to JobRow. `run` executes a command and returns its output. Raise the errors that `run` raises, also if
    accounting is off.

    Elements that were cancelled while their array waited have no record of their own: the array's record is used for
    them.
    """
    wanted = list(dict.fromkeys(ids))
    found = newest_attempts(records_of(wanted, run))
    rows = {job: found.get(job) or found.get(job.partition("_")[0]) for job in wanted}
    return {job: record.row._replace(job=job) for job, record in rows.items() if record}


def records_of(
    ids: Iterable[str], run: Callable[[Sequence[str]], str], columns: Sequence[str] = COLUMNS
) -> list[AccountingRecord]:
    """Return the accounting records of every attempt of the Slurm jobs `ids`, from one call of sacct (by `run`) for
    each batch of ids. With --jobs alone, sacct searches from the beginning of time. Raise SubmitAgain if an answer was
    cut short."""
    found: list[AccountingRecord] = []
    for some in id_batches(ids):
        text = run([*_sacct_argv(columns), "--jobs=" + ",".join(some)])
        if text and not text.endswith("\n"):
            raise SubmitAgain("sacct's answer was cut short", "sacct")
        found += parse_records(text, columns)
    return found


def find_ended_jobs(name: str, run: Callable[[Sequence[str]], str]) -> list[str]:
    """Return the ids of this user's Slurm jobs with this name that ended within the last day, according to sacct; none
    if accounting does not answer."""
    try:
        text = run([*_sacct_argv(), "--allocations", "--name=" + name, "--starttime=now-1days", f"--uid={os.getuid()}"])
    except (SubmitAgain, SubmitRejected, ConfigError):
        return []
    return [record.row.job for record in parse_records(text) if record.row.name == name]


def _sacct_argv(columns: Sequence[str] = COLUMNS) -> list[str]:
    argv = ["sacct", "--noheader", "--parsable", "--duplicates", "--delimiter=" + SEPARATOR]
    return [*argv, "--format=" + ",".join(columns)]


def newest_attempts(found: Iterable[AccountingRecord]) -> dict[str, AccountingRecord]:
    """Return the accounting record of each Slurm job's newest attempt, by job id, with the number of attempts of the
    same name before it, and the state in which the last of these ended."""
    attempts: dict[str, list[AccountingRecord]] = {}
    for record in found:
        attempts.setdefault(record.row.job, []).append(record)
    return {job: _newest_attempt(some) for job, some in attempts.items()}


def _newest_attempt(attempts: list[AccountingRecord]) -> AccountingRecord:
    attempts.sort(key=lambda record: (record.row.submitted or 0, record.row.started or record.row.expected or 1e12))
    last = attempts[-1]
    before = [record.row.state for record in attempts[:-1] if record.row.may_be(last.row.name)]
    return last._replace(row=last.row._replace(restarts=len(before), before=before[-1] if before else ""))


def parse_records(text: str, columns: Sequence[str] = COLUMNS) -> Iterator[AccountingRecord]:
    """Parse the lines that sacct prints into one AccountingRecord for each attempt of a job. A step's OUT_OF_MEMORY is
    added to its job's record. An incomplete line is left out."""
    current: list[AccountingRecord] = []
    for value in values_of(text, columns):
        job, dot, _ = value["JobID"].partition(".")
        if not dot:
            yield from current
            current = [_record(each, value) for each in ids_of(job)]
        elif full_name(value["State"]) == "OUT_OF_MEMORY":
            current = [
                record._replace(row=record.row._replace(out_of_memory=True)) if record.row.job == job else record
                for record in current
            ]
    yield from current


def _record(job: str, value: dict[str, str]) -> AccountingRecord:
    state = full_name(value["State"])
    phase = state_of(state).phase
    start = time_of(value["Start"])
    minutes = value["TimelimitRaw"]
    row = JobRow(
        job=job,
        seen=ACCOUNTS,
        state=state,
        reason="" if value["Reason"] in ("None", "") else value["Reason"],
        name="" if value["JobName"] == _PLACEHOLDER_NAME and not value["Partition"] else value["JobName"],
        partition=value["Partition"],
        nodes="" if value["NodeList"] in ("None assigned", "(null)") else value["NodeList"],
        node_count=number_of(value["NNodes"]),
        exit_code=value["ExitCode"],
        submitted=time_of(value["Submit"]),
        expected=start if phase == "queued" else None,
        started=None if phase == "queued" else start,
        ended=time_of(value["End"]) if phase == "ended" else None,
        limit=limit_of(minutes + ":00"),
        elapsed=number_of(value["ElapsedRaw"]),
        tres=value.get("AllocTRES", ""),
        cancelled_by=_cancelling_user(value["State"]),
        out_of_memory=state == "OUT_OF_MEMORY",
    )
    return AccountingRecord(row, exact_seconds_of(value["TotalCPU"]), number_of(value["CPUTimeRAW"]))


def _cancelling_user(state: str) -> int | None:
    """Return the uid of the user who cancelled a Slurm job from a state such as "CANCELLED by 1000"; None if there is
    none."""
    uid = state.partition(" by ")[2].strip()
    return int(uid) if uid.isdecimal() else None
