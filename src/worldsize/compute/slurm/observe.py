"""Conversion of Slurm's report of a job to an observation of a run. The functions are pure and convert one row at a
time."""

from __future__ import annotations

from worldsize.compute.slurm.job_rows import (
    ACCOUNTS,
    NOWHERE,
    UNANSWERED,
    JobRow,
    code_of,
    has_no_output,
    signal_text,
    span,
)
from worldsize.compute.slurm.reasons import wait_reason
from worldsize.compute.slurm.states import SlurmState, state_of
from worldsize.state.records import Observation, Reason
from worldsize.trust.owners import login_name

_LAST_SIGNAL = 64
_SIGNAL_RESOLUTION = 60
"""Maximum number of seconds by which the signal of --signal may come early (sbatch's manual: the resolution of Slurm's
event handling)."""

_REQUESTABLE_SIGNAL_CODES = frozenset(128 + number for number in (1, 2, 10, 12, 15))
"""Exit codes of processes that HUP, INT, USR1, USR2 or TERM ended: signals that --signal may request, and with which
KillWait begins."""

_UNINFORMATIVE_REASONS = ("NonZeroExitCode", "RaisedSignal", "JobLaunchFailure")
"""Reasons that add nothing to the exit code. Before 23.02 a script that a signal ended is a JobLaunchFailure."""

_REASONS = {
    "TimeLimit": Reason.TIME_LIMIT,
    "OutOfMemory": Reason.OUT_OF_MEMORY,
    "NodeDown": Reason.NODE_FAILURE,
}
_REQUEUE_TEXTS = {
    "PREEMPTED": "preempted and put back into the queue; ",
    "NODE_FAIL": "put back into the queue when a node failed; ",
    "BOOT_FAIL": "put back into the queue when a node failed to boot; ",
}


def observation(row: JobRow, *, name: str | None = None, signal_before: int | None = None) -> Observation:
    """Convert `row`, Slurm's report of one job, to the Observation of the run that the job belongs to.

    name           the job's name; a row with another name is another job that got the number again, so the run is
                   absent
    signal_before  the seconds before the limit at which the job requested a signal (--signal)
    """
    if row.seen == UNANSWERED:
        return Observation("unknown", message=f"Slurm does not answer: {row.trouble}")
    if row.seen == NOWHERE:
        why = f" ({row.trouble})" if row.trouble else ""
        return Observation("absent", message=f"Slurm no longer knows job {row.job}{why}")
    if name is not None and not row.may_be(name):
        return Observation("absent", message=f"Slurm's job {row.job} is now another job, named {row.name}")
    state = state_of(row.state)
    if state.phase == "ended":
        return _end_observation(row, state, signal_before)
    if row.seen == ACCOUNTS:
        what = f"Slurm's queue no longer holds job {row.job}, and its accounting has not recorded the end"
        return Observation("absent", message=what, restarts=row.restarts, started=row.started)
    if state.phase == "queued":
        wait = wait_reason(row.reason)
        stuck = state.stuck or wait.stuck
        return Observation("queued", message=waiting_words(row), restarts=row.restarts, stuck=stuck)
    message = "" if row.state == "RUNNING" else f"Slurm: it {state.words} ({row.state})"
    ending = row.state == "COMPLETING"
    return Observation(state.phase, message=message, restarts=row.restarts, started=row.started, ending=ending)


def waiting_words(row: JobRow) -> str:
    """Return a text for people about the queued Slurm job `row`: why and in which partition it waits, and what its
    owner can do if it will not start by itself. If the job was requeued, the text begins with the reason for that."""
    state, wait = state_of(row.state), wait_reason(row.reason)
    before = _REQUEUE_TEXTS.get(row.before, "put back into the queue; ") if row.restarts else ""
    held = f" ({row.state})" if state.stuck else ""
    where = f" in partition {row.partition}" if row.partition else ""
    words = f"{before}waits{where} {wait.words}{held}"
    if row.dependency and row.reason.startswith("Dependency"):
        words += ": " + row.dependency
    if row.reason and row.reason not in words:
        words += f" ({row.reason})"
    if state.stuck or wait.stuck:
        words += "; it will not start by itself"
    advice = wait.advice or ("`scontrol release JOB`" if state.stuck else "")
    return words + (": " + advice.replace("JOB", row.job) if advice and (state.stuck or wait.stuck) else "")


def _end_observation(row: JobRow, state: SlurmState, signal_before: int | None) -> Observation:
    code = code_of(row.exit_code)
    reason, message = state.reason, ""
    if row.state == "COMPLETED":
        code = 0
    elif row.state == "FAILED" and has_no_output(row.exit_code):
        code, reason, message = 1, Reason.ENVIRONMENT, _no_output_message(row)
    elif row.state == "FAILED":
        reason, message = _failure(row, code, signal_before)
    elif row.state == "CANCELLED":
        message = _cancellation_message(row)
    else:
        message = _kill_message(row, state)
    return Observation(
        "ended",
        reason,
        code if row.state == "COMPLETED" else code or 1,
        message,
        over=reason != Reason.NODE_FAILURE,  # a node that only lost its network may still run the job's processes
        restarts=row.restarts,
        started=row.started,
    )


def _failure(row: JobRow, code: int | None, signal_before: int | None) -> tuple[str, str]:
    """Return the `Reason` and the message of the run for a Slurm job that ended in the state FAILED with exit code
    `code`. FAILED means only that the script did not end with 0, so the job's reason, memory use and time limit are
    examined too."""
    if row.out_of_memory or row.reason in _REASONS:
        reason = Reason.OUT_OF_MEMORY if row.out_of_memory else _REASONS[row.reason]
        return reason, "Slurm: {}, and the job failed{}".format(
            row.reason or "a step ran out of memory", _code_text(code)
        )
    if signal_before is not None and code in _REQUESTABLE_SIGNAL_CODES and _is_near_limit(row, signal_before):
        return Reason.TIME_LIMIT, f"Slurm: it ended{_code_text(code)}, after {_limit_text(row)}"
    reason = Reason.SIGNAL if _is_signal(code) else Reason.EXIT_CODE if code else Reason.NODE_FAILURE
    why = "" if code and row.reason.startswith(_UNINFORMATIVE_REASONS) else row.reason
    return reason, "Slurm: the job failed{}{}".format(_code_text(code), f" ({why})" if why else "")


def _no_output_message(row: JobRow) -> str:
    first = row.nodes if row.node_count == 1 else "the first of {}".format(row.nodes or "its nodes")
    what = "Slurm: %s could not open the run's batch.log, so nothing was started: does the node see the run directory,"
    return (what + " and may it write there? (exit code %s)") % (first, row.exit_code)


def _cancellation_message(row: JobRow) -> str:
    if row.cancelled_by is None:
        by = ""
    elif row.cancelled_by == 0:
        by = " by root: an administrator, or Slurm itself"
    else:
        by = " by " + (login_name(row.cancelled_by) or f"uid {row.cancelled_by}")
    return "Slurm: cancelled{}{}".format(by, f" ({row.reason})" if row.reason else "")


def _kill_message(row: JobRow, state: SlurmState) -> str:
    if row.state == "TIMEOUT":
        return f"Slurm: it {state.words} (TIMEOUT), after {_limit_text(row)}"
    if state.reason == Reason.NODE_FAILURE:
        one = row.node_count == 1 or not row.nodes
        what = "{} failed".format(row.nodes or "a node") if one else f"one of {row.nodes} failed"
        return f"Slurm: {what} ({row.state})"
    return f"Slurm: it {state.words} ({row.state})"


def _is_near_limit(row: JobRow, signal_before: int) -> bool:
    """Return whether the Slurm job ended so late that it may have received the signal that it requested `signal_before`
    seconds before its time limit. False if its limit or run time is unknown."""
    if row.limit is None or row.elapsed is None:
        return False
    return row.elapsed >= row.limit - signal_before - _SIGNAL_RESOLUTION


def _limit_text(row: JobRow) -> str:
    """Return the Slurm job's run time and time limit as text, "2 min 3 s of a limit of 2 min"; the run time alone if
    there is no limit."""
    ran = span(row.elapsed) if row.elapsed is not None else "its run"
    return f"{ran} of a limit of {span(row.limit)}" if row.limit else ran


def _code_text(code: int | None) -> str:
    if not code:
        return ""
    return f" by signal {signal_text(code - 128)}" if _is_signal(code) else f" with code {code}"


def _is_signal(code: int | None) -> bool:
    """Return whether an exit code means that a signal ended the process: 129 to 192. srun ends with 233 and similar
    codes if it could not start a step; no signal has such a number."""
    return code is not None and 128 < code <= 128 + _LAST_SIGNAL
