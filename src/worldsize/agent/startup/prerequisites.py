"""Preparation before the nodes meet, for clusters without a batch script: the check that the run may start at all, and
the execution of its setup.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping

from worldsize.agent.outcome.node_record import write_unstarted_record
from worldsize.agent.outcome.verdict import AGENT_CANCELLED_CODE
from worldsize.agent.posix.signals import STOP, STOP_NOW
from worldsize.agent.startup.setup_script import environment_after_setup
from worldsize.common.atomic_files import access_of, has_same_owner
from worldsize.common.json_values import PARSE_ERRORS, read_record
from worldsize.errors import RunFailed
from worldsize.plan.array import array_of, read_after
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths, latest_attempt
from worldsize.plan.secrets_file import read_masked_plan
from worldsize.state.exit_records import read_exits
from worldsize.state.records import Reason, RunState
from worldsize.state.result import status_of

_LAG = 10.0
"""Seconds that the records of a run that is over may take to become visible here."""

_PAUSE = 0.25


def run_prerequisites(plan: Plan, paths: RunPaths, node_rank: int, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Check the other runs that this run waits for, execute the job's setup, and return the environment for the ranks
    as the setup leaves it. Raise RunFailed if the ranks must not start. The exit record is written before, except if
    the run's directory has been removed or replaced by another."""
    why = unmet_dependency(paths)
    if why:
        raise _record_unstarted(plan, paths, node_rank, f"it waited for {why}", Reason.DEPENDENCY, 1)
    if not plan.setup:
        return environ
    if plan.array:  # setup is executed in code/, which may still be missing
        from worldsize.agent.startup.array_element import complete_own_element

        complete_own_element(plan, paths)
    access = access_of(paths.root)
    told: list[int] = []
    before = {number: signal.signal(number, lambda heard, _: told.append(heard)) for number in (*STOP, STOP_NOW)}
    try:
        found = environment_after_setup(plan, paths, environ, lambda: bool(told), node_rank)
    except RunFailed as error:
        raise _record_unstarted(plan, paths, node_rank, str(error), Reason.ENVIRONMENT, error.exit_code) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if access_of(paths.root) != access:
        raise RunFailed("the run's directory no longer exists", 1)
    if found is None:
        raise _record_unstarted(plan, paths, node_rank, "cancelled", None, AGENT_CANCELLED_CODE)
    return found


def unmet_dependency(paths: RunPaths) -> str:
    """Return a text about the first run that this run waits for and that has not SUCCEEDED; "" if all have, or if any
    end is accepted.

    The runs that this one waits for are over, because the scheduler that started this agent has waited for them. Their
    records may become visible here some seconds later.
    """
    place = array_of(paths)
    listed = read_after(place[0] if place else paths.root)
    deadline = time.monotonic() + _LAG
    for each in listed:
        for root in () if each["any_end"] else each["roots"]:
            state = _state(root, paths.root)
            while state is None and time.monotonic() < deadline:
                time.sleep(_PAUSE)
                state = _state(root, paths.root)
            if state != RunState.SUCCEEDED:
                return "{} to succeed, and that run is {}".format(each["run"], state or "LOST")
    return ""


def _state(root: str, waiting: str) -> str | None:
    """Return the final state of the run in the directory `root`, from its result, else from its exit records. Return
    None while they do not contain it, and if `root` has another owner than `waiting`, the directory of the run that
    waits."""
    if not has_same_owner(root, waiting):
        return None
    try:
        ended = read_record(RunPaths(root).result, status_of)
        if ended is not None:
            return ended.state
        nodes = len(read_masked_plan(RunPaths(root)).agents)
    except (OSError, *PARSE_ERRORS):
        return None
    exits = read_exits(latest_attempt(RunPaths(root)), nodes)
    if any(record.code for record in exits):
        return RunState.FAILED
    return RunState.SUCCEEDED if len(exits) == nodes else None


def _record_unstarted(
    plan: Plan, paths: RunPaths, node_rank: int, what: str, reason: str | None, code: int
) -> RunFailed:
    write_unstarted_record(plan, paths, node_rank, what, reason, code)
    return RunFailed(what, code)
