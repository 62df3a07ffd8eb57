"""States of many jobs from one squeue, and from one sacct for those that squeue no longer knows; also the interval
between queries.

squeue's --Format is used with width 0 and a separator of worldsize as each column's suffix. So nothing is cut off and
nothing needs to be guessed, on 20.11 to 26.05 alike (_parse_long_token in squeue's opts.c, _print_str in its print.c).
JSON cannot be used: 22.05 ignores --jobs with it, and its shape differs between releases.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from worldsize.compute.slurm.accounting import account_rows, find_ended_jobs
from worldsize.compute.slurm.cluster import gpus_of
from worldsize.compute.slurm.job_rows import (
    NOWHERE,
    QUEUE,
    UNANSWERED,
    JobRow,
    code_of,
    format_option,
    id_batches,
    ids_of,
    limit_of,
    number_of,
    seconds_of,
    time_of,
    values_of,
)
from worldsize.compute.slurm.states import full_name, state_of
from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected

SlurmRunner = Callable[[Sequence[str]], str]
"""Function that runs a Slurm program and returns what it printed. It raises the errors of `commands.run_slurm`."""

COLUMNS = (
    "jobarrayid", "state", "reason", "exit_code", "restartcnt", "requeue", "submittime", "starttime", "endtime",
    "timelimit", "timeused", "numnodes", "nodelist", "partition", "name", "dependency", "tres-alloc", "tres-per-node",
)  # fmt: skip
"""Columns that all versions from 20.11 to 26.05 have. squeue compares their names without regard to case."""

_SQUEUE = ("squeue", "--noheader", "--all", "--states=all", format_option(COLUMNS), "--local")
_KILLED_CODES = range(128, 256)

_LAG = 5.0
"""Maximum number of seconds until slurmdbd has recorded the end of a job."""

_FIRST_PAUSE = 1.0
_PAUSE_SHARE = 0.05
_LONGEST_PAUSE = 15.0
_LONGEST_QUEUED_PAUSE = 30.0
_RUNS_PER_STEP = 50


def query_jobs(ids: Iterable[str], run: SlurmRunner) -> dict[str, JobRow]:
    """Query the states of Slurm jobs and return a JobRow for every id in `ids`, by id: "1234" or "1234_7". All must be
    jobs of this machine's own cluster. `run` executes Slurm's programs.

    One squeue is run for any number of jobs. One sacct follows for jobs that squeue does not know, for waiting jobs
    that were restarted (to find the cause), and for cancelled and killed ones (to find the user, or a lack of memory).

    If slurmctld does not answer, every row is UNANSWERED and no conclusion is possible. If only accounting does not
    answer, or is off, the other rows are valid. A job that was cancelled or killed is COMPLETING until accounting has
    recorded the end, for 5 s at most. Errors of Slurm, or of a machine without it, are never raised.
    """
    wanted = list(dict.fromkeys(ids))
    if not wanted:
        return {}
    try:
        known = _read_queue(wanted, run)
    except (SubmitAgain, SubmitRejected, ConfigError) as error:
        return {job: JobRow(job, UNANSWERED, trouble=error.what) for job in wanted}
    unclear = [job for job in wanted if job not in known or _may_need_accounting(known[job])]
    trouble, accounts = "", {}
    if unclear:
        try:
            accounts = account_rows(unclear, run)
        except (SubmitAgain, SubmitRejected, ConfigError) as error:
            trouble = error.what
    rows = {job: _merge_rows(known.get(job), accounts.get(job)) for job in wanted}
    for job in () if trouble else unclear:
        if job in known and not _is_accounting_complete(known[job], accounts.get(job)):
            rows[job] = known[job]._replace(state="COMPLETING", ended=None)
    return {job: row or JobRow(job, NOWHERE, trouble=trouble) for job, row in rows.items()}


def find_jobs(name: str, run: SlurmRunner) -> list[str]:
    """Return the ids of this user's Slurm jobs named `name` that slurmctld or accounting knows, newest first. For an
    array, the base id is returned.

    This finds a submission whose reply was lost. All users can see the names of jobs, and any user can give a job the
    same name. Raise SubmitAgain or SubmitRejected if slurmctld does not answer.
    """
    found = [
        row.job for row in queue_rows(run([*_SQUEUE, "--name=" + name, f"--user={os.getuid()}"])) if row.name == name
    ]
    if not found:
        found = find_ended_jobs(name, run)
    return sorted({job.split("_")[0] for job in found}, key=int, reverse=True)


def queue_rows(text: str) -> Iterator[JobRow]:
    """Parse `text`, squeue's output with `COLUMNS`, and yield a JobRow for each job, and for each element of an array.
    Incomplete lines are left out."""
    for value in values_of(text, COLUMNS):
        for job in ids_of(value["jobarrayid"]):
            yield _row(job, value)


def _row(job: str, value: dict[str, str]) -> JobRow:
    state = full_name(value["state"])
    phase = state_of(state).phase
    start = time_of(value["starttime"])
    return JobRow(
        job,
        QUEUE,
        state,
        "" if value["reason"] in ("None", "(null)", "N/A") else value["reason"],
        value["name"],
        value["partition"],
        "" if value["nodelist"] in ("(null)", "N/A", "None") else value["nodelist"],
        number_of(value["numnodes"]),
        value["exit_code"],
        number_of(value["restartcnt"]),
        value["requeue"] == "1" if value["requeue"] in ("0", "1") else None,
        time_of(value["submittime"]),
        start if phase == "queued" else None,
        None if phase == "queued" else start,
        time_of(value["endtime"]) if phase == "ended" else None,
        limit_of(value["timelimit"]),
        seconds_of(value["timeused"]),
        "" if value["dependency"] in ("(null)", "N/A") else value["dependency"],
        _tres(value),
    )


def _tres(value: dict[str, str]) -> str:
    """Return the resources that a job holds, such as "cpu=8,node=2,gres/gpu=8", from its squeue columns `value`. squeue
    lists GPUs there only if AccountingStorageTRES counts them, so the requested GPUs are added otherwise."""
    held = "" if value["tres-alloc"] in ("(null)", "N/A") else value["tres-alloc"]
    gpus = gpus_of(value["tres-per-node"])[1] * number_of(value["numnodes"])
    return f"{held},gres/gpu={gpus}" if gpus and "gres/gpu" not in held else held


def _read_queue(wanted: list[str], run: SlurmRunner) -> dict[str, JobRow]:
    """Run squeue for the job ids `wanted` and return a JobRow, by id, for those that squeue knows. An array is queried
    by its base id. squeue fails for one unknown id alone, and ignores it among several. Raise SubmitAgain if squeue's
    answer was cut short."""
    known: dict[str, JobRow] = {}
    for some in id_batches(wanted):
        try:
            text = run([*_SQUEUE, "--array", "--jobs=" + ",".join(some)])
        except SubmitRejected as error:
            if len(some) > 1 or "invalid job id" not in error.what.lower():
                raise
            continue
        if text and not text.endswith("\n"):
            raise SubmitAgain("squeue's answer was cut short", "squeue")
        known.update((row.job, row) for row in queue_rows(text))
    return {job: known[job] for job in wanted if job in known}


def _may_need_accounting(row: JobRow) -> bool:
    """Return whether sacct may know more about the job than squeue's `row` shows: for a job that was requeued and
    waits, that was cancelled, or that failed with the exit code of a signal."""
    if state_of(row.state).phase == "queued":
        return row.restarts > 0
    return row.state == "CANCELLED" or (row.state == "FAILED" and (code_of(row.exit_code) or 0) in _KILLED_CODES)


def _merge_rows(queued: JobRow | None, account: JobRow | None) -> JobRow | None:
    """Return `queued`, squeue's row for a job, completed with facts that only sacct's row `account` has: who cancelled
    the job, a lack of memory, and the state before the last restart. If one row is None, return the other; if `account`
    belongs to another job, return `queued` unchanged."""
    if queued is None or account is None:
        return queued or account
    if not account.may_be(queued.name):
        return queued
    return queued._replace(
        cancelled_by=account.cancelled_by if queued.state == "CANCELLED" else None,
        out_of_memory=account.out_of_memory and account.state == queued.state,
        before=_state_before_restart(queued, account),
    )


def _is_accounting_complete(queued: JobRow, account: JobRow | None) -> bool:
    """Return whether accounting has recorded the end of the job, or has had the time to do so. `queued` is squeue's row
    of the job, and `account` is sacct's."""
    if not queued.elapsed or queued.ended is None or abs(time.time() - queued.ended) > _LAG:
        return True
    if account is None or not account.may_be(queued.name) or account.restarts < queued.restarts:
        return False
    return state_of(account.state).phase == "ended"


def _state_before_restart(queued: JobRow, account: JobRow) -> str:
    """Return the Slurm state in which a requeued job's previous attempt ended, from squeue's row `queued` and sacct's
    row `account`. For some seconds, accounting has only the record of that attempt for a job that was just put back
    into the queue."""
    behind = account.restarts < queued.restarts and state_of(account.state).phase == "ended"
    return account.state if behind else account.before


def is_inside_allocation(environ: Mapping[str, str], run: SlurmRunner) -> bool:
    """Return whether the shell with the environment `environ` belongs to a Slurm allocation that is running. The
    environment of a rank looks like that of such a shell, and so does that of a shell (tmux) that outlived its
    allocation, so ranks are excluded and squeue is queried."""
    if "SLURM_JOB_ID" not in environ or "SLURM_JOB_NODELIST" not in environ or "WORLDSIZE_RANK" in environ:
        return False
    return query_jobs([environ["SLURM_JOB_ID"]], run)[environ["SLURM_JOB_ID"]].state == "RUNNING"


def query_pause(age: float, runs: int = 1, queued: bool = False) -> float:
    """Return the seconds to wait before squeue is queried again. Every query takes a lock that the scheduler needs too.

    age     seconds since the last change (submission, start, or another state)
    runs    number of jobs in one query; more jobs make the answer and the pause longer
    queued  whether all jobs wait, and no user watches output

    The pause is 1 s at first, then a twentieth of `age`, up to 15 s, or 30 s while all jobs wait. It grows by its own
    length for every 50 runs, up to four times as long.
    """
    longest = _LONGEST_QUEUED_PAUSE if queued else _LONGEST_PAUSE
    many = min(1 + max(runs, 1) // _RUNS_PER_STEP, 4)
    return min(max(_FIRST_PAUSE, age * _PAUSE_SHARE), longest) * many
