"""Many jobs' states from one squeue, and from one sacct for those that squeue no longer knows; how often to ask.

squeue's --Format is used with width 0 and a separator of our own as each column's suffix: so nothing is cut off and
nothing needs to be guessed, on 20.11 to 26.05 alike (_parse_long_token in squeue's opts.c, _print_str in its print.c).
JSON would not do: 22.05 ignores --jobs with it, and its shape differs between releases.
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
"""Runs a Slurm program and gives what it printed; raises as `commands.run_slurm` does."""

COLUMNS = (
    "jobarrayid", "state", "reason", "exit_code", "restartcnt", "requeue", "submittime", "starttime", "endtime",
    "timelimit", "timeused", "numnodes", "nodelist", "partition", "name", "dependency", "tres-alloc", "tres-per-node",
)  # fmt: skip
"""Columns that 20.11 to 26.05 all have; their names are compared without regard to case."""

_SQUEUE = ("squeue", "--noheader", "--all", "--states=all", format_option(COLUMNS), "--local")
_KILLED_CODES = range(128, 256)

_LAG = 5.0
"""Seconds that slurmdbd may need to hear of an end."""

_FIRST_PAUSE = 1.0
_PAUSE_SHARE = 0.05
_LONGEST_PAUSE = 15.0
_LONGEST_QUEUED_PAUSE = 30.0
_RUNS_PER_STEP = 50


def query_jobs(ids: Iterable[str], run: SlurmRunner) -> dict[str, JobRow]:
    """Return a row for every id, "1234" or "1234_7"; all of them jobs of this machine's own cluster.

    One squeue, however many; one sacct more for those that squeue does not know, for waiting ones that had been
    restarted (why?), and for cancelled and killed ones (by whom? for their memory?). Where slurmctld does not answer,
    every row is UNANSWERED and no conclusion is possible; where only accounting does not, or is off, the others hold. A
    job that was cancelled or killed is COMPLETING until accounting has heard of it, for 5 s at most. Never raises for
    what Slurm, or a machine without it, may do.
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
    """Return the ids of this user's jobs of this name that slurmctld or accounting knows, newest first; an array's is
    its base id.

    For a submission whose reply was lost. SubmitAgain, SubmitRejected: slurmctld does not answer. Names of jobs are
    seen by all, and anybody may give one of his the same.
    """
    found = [
        row.job for row in queue_rows(run([*_SQUEUE, "--name=" + name, f"--user={os.getuid()}"])) if row.name == name
    ]
    if not found:
        found = find_ended_jobs(name, run)
    return sorted({job.split("_")[0] for job in found}, key=int, reverse=True)


def queue_rows(text: str) -> Iterator[JobRow]:
    """squeue's lines as rows, an array's element each; a line that is not whole is left out."""
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
    """What it holds; GPUs are only in it where AccountingStorageTRES counts them, so what it asked for is added."""
    held = "" if value["tres-alloc"] in ("(null)", "N/A") else value["tres-alloc"]
    gpus = gpus_of(value["tres-per-node"])[1] * number_of(value["numnodes"])
    return f"{held},gres/gpu={gpus}" if gpus and "gres/gpu" not in held else held


def _read_queue(wanted: list[str], run: SlurmRunner) -> dict[str, JobRow]:
    """An array is asked for by its base id. One unknown id alone is an error to squeue, and none among several."""
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
    """Return whether accounting may tell more than squeue does."""
    if state_of(row.state).phase == "queued":
        return row.restarts > 0
    return row.state == "CANCELLED" or (row.state == "FAILED" and (code_of(row.exit_code) or 0) in _KILLED_CODES)


def _merge_rows(queued: JobRow | None, account: JobRow | None) -> JobRow | None:
    """squeue's word is the newest; accounting adds what only it knows, of the same job and attempt."""
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
    """Return whether accounting has told what it can of an end, or has had the time to."""
    if not queued.elapsed or queued.ended is None or abs(time.time() - queued.ended) > _LAG:
        return True
    if account is None or not account.may_be(queued.name) or account.restarts < queued.restarts:
        return False
    return state_of(account.state).phase == "ended"


def _state_before_restart(queued: JobRow, account: JobRow) -> str:
    """Return a job that was just put back has, for some seconds, no record yet but that of the attempt before."""
    behind = account.restarts < queued.restarts and state_of(account.state).phase == "ended"
    return account.state if behind else account.before


def is_inside_allocation(environ: Mapping[str, str], run: SlurmRunner) -> bool:
    """Return whether this shell belongs to an allocation that is there. A rank's environment only looks so, and what an
    ended allocation left in a shell (tmux) does too."""
    if "SLURM_JOB_ID" not in environ or "SLURM_JOB_NODELIST" not in environ or "WORLDSIZE_RANK" in environ:
        return False
    return query_jobs([environ["SLURM_JOB_ID"]], run)[environ["SLURM_JOB_ID"]].state == "RUNNING"


def query_pause(age: float, runs: int = 1, queued: bool = False) -> float:
    """Seconds until Slurm may be asked again: every query takes the lock that scheduling needs too.

    age     seconds since something last changed (it was submitted, it started, its state was another)
    runs    how many jobs one query asks for: the more, the longer, since the answer is
    queued  all of them wait, and nobody watches output

    1 s at first, then a twentieth of `age`, up to 15 s, or 30 s while everything waits; one step more for every
    50 runs, up to four times as long.
    """
    longest = _LONGEST_QUEUED_PAUSE if queued else _LONGEST_PAUSE
    many = min(1 + max(runs, 1) // _RUNS_PER_STEP, 4)
    return min(max(_FIRST_PAUSE, age * _PAUSE_SHARE), longest) * many
