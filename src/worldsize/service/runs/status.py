"""Computation of a run's status from its directory and from what its compute reports."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from worldsize.common.atomic_files import file_server_time
from worldsize.common.json_values import check_fields, read_record
from worldsize.common.named_tuple import Any, cast
from worldsize.compute.base import Compute, Handle, IdleCallback
from worldsize.errors import DamagedRun, NewerFormat
from worldsize.plan.array import is_cancelled
from worldsize.plan.handle import read_handle
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.service.ownership import is_own
from worldsize.service.runs.preparation_mark import is_being_prepared
from worldsize.service.runs.settle import record_result, replace_result
from worldsize.state.exit_records import ranks_start_time, read_exits
from worldsize.state.records import Observation, Reason, RunState, Status
from worldsize.state.result import status_of
from worldsize.state.run_state import LOST_CODE, RUN_CANCELLED_CODE, AttemptFacts, fold

RecordResult = Callable[[RunPaths, Plan, Status], None]

_LAG = 5.0
_HIDDEN = 90.0
"""Seconds for which a client of NFS may show a directory as it was. Its limit (acdirmax) is 60, and a margin is
added."""

_PREPARING_LIMIT = 600.0
_FIRST_SIGN = 5.0
_REQUEUEING = 30.0
_CLOCK_SLACK = 5.0
"""Seconds by which the clocks of a scheduler and of a file server may differ."""


def read_plan(paths: RunPaths) -> Plan | None:
    """Return the run's plan from its plan.json; None if there is none (yet). Raise DamagedRun if the file is not a
    valid plan, OSError if it cannot be read."""
    return read_record(paths.plan, _parse_plan)


def _parse_plan(value: Any) -> Plan:
    plan = check_fields(Plan.from_value(value))
    ranks = [rank.rank for node in plan.nodes for rank in node.ranks]
    if not all(node.ranks for node in plan.nodes) or ranks != list(range(len(ranks))) or not ranks:
        raise ValueError("its ranks are not numbered from 0")
    return plan


def read_result(paths: RunPaths) -> Status | None:
    """Return the final status of the run from result.json; None if there is none (yet). Raise DamagedRun if the file
    contains no valid end, OSError if it cannot be read."""
    return read_record(paths.result, status_of)


def read_native_handle(paths: RunPaths) -> Handle | None:
    """Return the compute's native id of the run: its own, or the one that its array was given for it; None if there is
    none. Raise DamagedRun if it is not a valid id."""
    return cast("Handle | None", read_handle(paths))


def refresh_status(
    paths: RunPaths, compute: Compute, plan: Plan, seen: Observation | None = None, idle: IdleCallback | None = None
) -> Status:
    """Return the run's status now. A final status that is not yet settled is settled: what is left of a run of this
    user is ended, and result.json is written. A LOST result is replaced once the nodes' records show another end.

    The compute is queried if the nodes' records are not sufficient. It is queried before the directory is read, so that
    a rank that has ended by then has written all its output. `idle` is called while the compute has not answered.
    """
    settled = read_result(paths)
    if settled is not None:
        return settled if settled.state != RunState.LOST else _recover_lost(paths, plan) or settled
    handle = read_native_handle(paths)
    told = status_from_records(paths, plan, handle)
    if told is not None:
        return told
    if seen is None:
        seen = compute.observe([handle], idle)[0] if handle else Observation("absent")
    return fold_observation(paths, compute, plan, handle, seen)


def unasked_status(paths: RunPaths, plan: Plan, why: str) -> Status:
    """Return the status of a run whose compute cannot be queried here, as the run's own files show it, with the reason
    `why` as the message of an unknown observation. The status is never newly LOST, and it is settled only by the
    records of all nodes."""
    handle = read_native_handle(paths)
    told = read_result(paths) or status_from_records(paths, plan, handle)
    return told or fold(_facts(paths, plan, handle, Observation("unknown", message=why)))


def recorded_state(paths: RunPaths, plan: Plan) -> str:
    """Return the name of the run's state as its own files show it. The compute is not queried, and nothing is written.
    Raise DamagedRun, OSError."""
    settled = read_result(paths)
    if settled is not None:
        return settled.state
    return fold(_facts(paths, plan, read_native_handle(paths), Observation("unknown"))).state


def _recover_lost(paths: RunPaths, plan: Plan) -> Status | None:
    """Return the actual end of a run that was recorded as LOST, once the exit records of all nodes can be read, and
    replace the recorded result; None before. A file server may have shown the records later than any client waited."""
    status = fold(_facts(paths, plan, read_native_handle(paths), Observation("ended")))
    return _conclude(paths, plan, status, replace_result) if status.final else None


def status_from_records(paths: RunPaths, plan: Plan, handle: Handle | None) -> Status | None:
    """Return the final status of a run if the exit records of its nodes show it, and write result.json; the compute is
    not queried. None if the records show no end, or a signal or a lost node, whose cause the compute may know better.
    """
    if handle is None or not os.path.exists(paths.exit_record(0)):
        return None
    status = fold(_facts(paths, plan, handle, Observation("unknown")))
    if not status.final or status.reason in (Reason.SIGNAL, Reason.NODE_FAILURE):
        return None
    return _conclude(paths, plan, status)


def fold_observation(
    paths: RunPaths,
    compute: Compute,
    plan: Plan,
    handle: Handle | None,
    observation: Observation,
    remains: bool = True,
    record: RecordResult = record_result,
) -> Status:
    """Return the status of a run, computed from its files and from what the compute has reported (`observation`). With
    `remains`, processes that are left of a run that is no longer supervised are ended. `record` is called with an end
    that has not been written yet."""
    current = observed_attempt(paths, observation)
    if current.attempt > paths.attempt:  # the scheduler means the next attempt, which has not begun
        paths = current
        if observation.ending:
            what = f"put back into the queue, once its previous attempt has ended ({observation.message})"
            observation = observation._replace(phase="queued", message=what)
    elif observation.phase == "ended" and observation.restarts < paths.attempt and _is_recent(paths.attempt_dir):
        observation = Observation("queued", message="on its way back into the queue")  # the former attempt ended
    settled = read_result(paths)
    if settled is not None:
        return settled
    over = observation.over or _is_settled(paths, plan, handle, observation)
    status = fold(_facts(paths, plan, handle, observation, settled=over))
    if status.final:
        held = observation.phase == "running" and status.reason == Reason.NODE_FAILURE
        absent = remains and observation.phase == "absent"
        if (absent or held) and handle is not None and is_own(paths) and read_native_handle(paths) == handle:
            if absent:
                compute.end_remains(handle)
            else:
                compute.cancel([handle])  # the program that started the agents may wait forever for the lost one
        if status.state != RunState.SUCCEEDED and observation.phase == "ended" and observation.reason is not None:
            from worldsize.service.runs.scheduler_record import keep_scheduler_record

            keep_scheduler_record(paths, handle, observation)
        return _conclude(paths, plan, status, record)
    if observation.ending:
        from worldsize.service.runs.start_failures import with_ending_cause

        return with_ending_cause(paths, status)
    if status.state == RunState.STARTING and not status.message and (plan.setup or len(plan.agents) > 1):
        from worldsize.service.runs.startup_wait import with_startup_wait

        return with_startup_wait(paths, status, plan)
    return status


def _is_recent(directory: str) -> bool:
    """Return whether the directory was made or changed within the last `_REQUEUEING` seconds."""
    return time.time() - os.stat(directory).st_mtime < _REQUEUEING


def _conclude(paths: RunPaths, plan: Plan, status: Status, record: RecordResult = record_result) -> Status:
    """Record the final `status` of a run with `record`, after adding the cause of a failure that the batch script's log
    shows, and return the status."""
    if os.path.exists(paths.batch_log):
        from worldsize.service.runs.start_failures import with_cause

        status = with_cause(paths, status, is_cancelled(paths))
    record(paths, plan, status)
    return status


def _facts(
    paths: RunPaths, plan: Plan, handle: Handle | None, observation: Observation, settled: bool = False
) -> AttemptFacts:
    has_begun = os.path.exists(paths.attempt_dir)  # an element's directories are made when it starts
    started = ranks_start_time(paths) if has_begun else None
    return AttemptFacts(
        nodes=len(plan.agents),
        prepared=os.path.exists(paths.record),
        submitted=handle is not None,
        rejected=None,
        cancelled=is_cancelled(paths),
        launched=started is not None,
        exits=read_exits(paths, len(plan.agents)) if has_begun else (),
        observation=observation,
        settled=settled,
        started=started,
    )


def _is_settled(paths: RunPaths, plan: Plan, handle: Handle | None, observation: Observation) -> bool:
    """Return whether no more records of the run's nodes are expected, because nothing has been written to its directory
    for long enough. If a job ended with 0, its nodes have written records, which are awaited for the time that a file
    server's caches may hide them."""
    newest = 0.0
    for path in (paths.root, paths.exit_dir, *(paths.events(node.node_rank) for node in plan.agents)):
        try:
            newest = max(newest, os.stat(path).st_mtime)
        except OSError:
            continue  # not made yet, or gone
    if handle is None:
        return _is_interrupted(paths, time.time() - newest)
    patience = plan.grace + _LAG
    if observation.phase not in ("ended", "absent"):
        return time.time() - newest > patience
    if observation.phase == "ended" and observation.code == 0:
        patience = max(patience, _HIDDEN)
    return _server_time(paths) - newest > patience


def _server_time(paths: RunPaths) -> float:
    """Return the time on the clock that dates the run's files, which is the file server's and not this machine's where
    a file server dates them. If this process can write none of the run's files, return this machine's time."""
    try:
        return file_server_time(paths.logs_dir) if is_own(paths) else time.time()
    except OSError:
        return time.time()


def _is_interrupted(paths: RunPaths, silent: float) -> bool:
    """Return whether a run that has no handle will never be submitted. `silent` is the number of seconds since its
    files last changed. If the process died right after it had passed the run to the compute, that shows within a
    moment: the conductor of a local run writes the handle. The handle of another compute's run may be lost, and the run
    ends alone."""
    alive = is_being_prepared(paths)
    if alive is not False:
        return alive is None and silent > _PREPARING_LIMIT
    if not os.path.exists(paths.record):
        return True
    return silent > (_PREPARING_LIMIT if _has_begun(paths) else _FIRST_SIGN)


def _has_begun(paths: RunPaths) -> bool:
    try:
        return bool(os.listdir(paths.events_dir))
    except FileNotFoundError:
        return False  # an element's directories are made when it starts


def damaged_status(paths: RunPaths, error: Exception) -> Status:
    """Return the LOST status of a run about which nothing more can be known because of `error`. The run itself may
    still continue."""
    file = error.where if isinstance(error, DamagedRun) else None
    reason = f"{Reason.DAMAGED}: {os.path.relpath(file, paths.root)}" if file else Reason.DAMAGED
    what = str(error) if isinstance(error, NewerFormat) else f"its run directory is damaged: {error}"
    return Status(RunState.LOST, reason, LOST_CODE, what)


def preparing_status(paths: RunPaths) -> Status:
    """Return the status of a run whose directory has no plan: PREPARING while it is being prepared, CANCELLED if that
    was requested, else LOST, also if the directory was deleted."""
    try:
        age = time.time() - os.stat(paths.root).st_mtime
    except FileNotFoundError:
        return Status(RunState.LOST, exit_code=1, message="its run directory was deleted")
    alive = is_being_prepared(paths)
    if alive or (alive is None and age <= _PREPARING_LIMIT):
        return Status(RunState.PREPARING)
    if os.path.exists(paths.cancel):
        return Status(RunState.CANCELLED, Reason.CANCELLED_BY_USER, RUN_CANCELLED_CODE, "cancelled")
    return Status(RunState.LOST, exit_code=1, message="it was interrupted while it was being prepared")


def observed_attempt(paths: RunPaths, observation: Observation) -> RunPaths:
    """Return the paths of the attempt that the compute has observed. `paths` are those of the latest attempt that has
    begun: a scheduler starts a run again after a preemption or a failed node.

    Where restarts are not attempts, because only restarts in which an agent began are counted as attempts, the observed
    attempt is the next one in two cases: the native job waits again, or it was requeued and started after the latest
    attempt had begun.
    """
    if observation.counted:
        return RunPaths(paths.root, observation.restarts) if observation.restarts > paths.attempt else paths
    try:
        began = os.stat(paths.events_dir).st_mtime if os.listdir(paths.events_dir) else None
    except OSError:
        began = None
    if began is None:
        return paths
    again = observation.restarts > paths.attempt and (observation.started or 0.0) - _CLOCK_SLACK > began
    return RunPaths(paths.root, paths.attempt + 1) if again or observation.phase == "queued" else paths
