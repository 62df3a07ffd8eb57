"""Everything known of a run, read from its directory and its compute, folded into its status."""

from __future__ import annotations

import json
import os
import time
from typing import Any, NamedTuple

from worldsize.compute.base import Compute, Handle
from worldsize.plan.files import read_json, write_once
from worldsize.plan.launch import Plan
from worldsize.plan.paths import RunPaths
from worldsize.service.preparing import is_being_prepared
from worldsize.state.exits import read_exits
from worldsize.state.records import Failure, Observation, Reason, RunState, Status
from worldsize.state.result import result
from worldsize.state.status import CANCELLED_CODE, Facts, fold

_LAG = 5.0
_PREPARING_LIMIT = 600.0
_FIRST_SIGN = 1.0


class Known(NamedTuple):
    """A run's plan (None while it is being prepared) and status."""

    plan: Plan | None
    status: Status


def read_plan(paths: RunPaths) -> Plan | None:
    try:
        with open(paths.plan) as file:
            return Plan.from_json(file.read())
    except FileNotFoundError:
        return None


def read_result(paths: RunPaths) -> Status | None:
    value = read_json(paths.result)
    return None if value is None else status_of(value)


def status_of(value: dict[str, Any]) -> Status:
    row = value["summary"]
    failure = Failure(**value["failure"]) if value["failure"] else None
    return Status(
        row["state"], row["reason"], row["exit_code"], value["message"], failure, row["started"], row["ended"]
    )


def look(paths: RunPaths, compute: Compute, plan: Plan) -> Status:
    """The run's status now. A final one that nobody has settled yet is settled: what is left of a run of ours is ended,
    and result.json written.

    The compute is asked before the directory is read: who has ended by then has written what it had to say.
    """
    settled = read_result(paths)
    if settled is not None:
        return settled
    handle: Handle | None = read_json(paths.handle)
    observation = compute.observe([handle])[0] if handle else Observation("absent")
    settled = read_result(paths)
    if settled is not None:
        return settled
    status = fold(_facts(paths, plan, handle, observation))
    if status.final:
        if handle is not None and observation.phase == "absent" and os.stat(paths.root).st_uid == os.getuid():
            compute.end_remains(handle)
        _settle(paths, plan, status)
    return status


def _facts(paths: RunPaths, plan: Plan, handle: Handle | None, observation: Observation) -> Facts:
    started = ranks_started(paths)
    return Facts(
        nodes=len(plan.nodes),
        prepared=os.path.exists(paths.record),
        submitted=handle is not None,
        rejected=None,
        cancelled=os.path.exists(paths.cancel),
        launched=started is not None,
        exits=read_exits(paths, len(plan.nodes)),
        observation=observation,
        settled=observation.over or _settled(paths, plan, handle),
        started=started,
    )


def ranks_started(paths: RunPaths) -> float | None:
    """When the head's agent had started its ranks, which it does when all nodes are there; None before."""
    try:
        with open(paths.events(0), "rb") as file:
            lines = [line for line in file if b'"ranks_started"' in line]
        return float(json.loads(lines[0])["time"]) if lines else None
    except (OSError, ValueError):
        return None  # a line that is still being written, or that a full disk cut


def _settled(paths: RunPaths, plan: Plan, handle: Handle | None) -> bool:
    """Whether nothing has been written for so long that nothing more is to come."""
    newest = 0.0
    for path in (paths.root, paths.exit_dir, *(paths.events(node.node_rank) for node in plan.nodes)):
        try:
            newest = max(newest, os.stat(path).st_mtime)
        except OSError:
            continue
    silent = time.time() - newest
    return _interrupted(paths, silent) if handle is None else silent > plan.grace + _LAG


def _interrupted(paths: RunPaths, silent: float) -> bool:
    """Whether a run that nobody has submitted never will be. What the compute was given just before its giver died
    shows within a moment; the handle is lost then, and the run ends by itself."""
    alive = is_being_prepared(paths)
    if alive is not False:
        return alive is None and silent > _PREPARING_LIMIT
    if not os.path.exists(paths.record):
        return True
    return silent > (_PREPARING_LIMIT if os.listdir(paths.events_dir) else _FIRST_SIGN)


def _settle(paths: RunPaths, plan: Plan, status: Status) -> None:
    try:
        write_once(paths.result, result(plan, status))
    except OSError:
        return  # read-only for us, or full: everybody who looks comes to the same conclusion


def preparing(paths: RunPaths) -> Status:
    """The status of a run directory without a plan."""
    try:
        age = time.time() - os.stat(paths.root).st_mtime
    except FileNotFoundError:
        return Status(RunState.LOST, exit_code=1, message="its run directory was deleted")
    alive = is_being_prepared(paths)
    if alive or (alive is None and age <= _PREPARING_LIMIT):
        return Status(RunState.PREPARING)
    if os.path.exists(paths.cancel):
        return Status(RunState.CANCELLED, Reason.CANCELLED_BY_USER, CANCELLED_CODE, "cancelled")
    return Status(RunState.LOST, exit_code=1, message="it was interrupted while it was being prepared")


def read_events(paths: RunPaths, node_rank: int) -> list[dict[str, Any]]:
    """A node's events; a line that is still being written is left for the next time."""
    try:
        with open(paths.events(node_rank)) as file:
            lines = file.read().split("\n")[:-1]
    except OSError:
        return []
    return [json.loads(line) for line in lines]
