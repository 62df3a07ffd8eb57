"""The state of an array, computed from the states of its elements, and its result.json.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.plan.array import Array, element_id
from worldsize.state.records import RunState, Status
from worldsize.state.summary import summary_of

_ORDER = (RunState.FAILED, RunState.LOST, RunState.CANCELLED, RunState.SUCCEEDED)
_SEARCH_ORDER = (RunState.CANCELLED, RunState.SUCCEEDED, RunState.FAILED, RunState.LOST)
_STARTED = (RunState.RUNNING, RunState.STARTING, RunState.STOPPING)
_WAITING = (RunState.QUEUED, RunState.PREPARING, RunState.CREATED)


def count_states(statuses: Sequence[Status]) -> dict[str, int]:
    """Return how many elements of an array are in each state, as a mapping of state to number, with the states in the
    order of a run's life."""
    found = [status.state for status in statuses]
    states = (*reversed(_WAITING), RunState.STARTING, RunState.RUNNING, RunState.STOPPING, *reversed(_ORDER))
    return {state: found.count(state) for state in states if state in found}


def overall_state(states: Mapping[str, int], search: bool = False) -> str:
    """Return the state of an array, computed from `states`, the number of its elements in each state. It is final once
    all elements are final, and then it is the worst of their states. It is RUNNING from the first start on. For a
    `search`, one successful trial makes it SUCCEEDED, unless other trials were cancelled."""
    if not any(state not in RunState.FINAL for state in states):
        return next(state for state in (_SEARCH_ORDER if search else _ORDER) if state in states)
    if any(state in states for state in _STARTED) or any(state in states for state in _ORDER):
        return RunState.STOPPING if set(states) - RunState.FINAL == {RunState.STOPPING} else RunState.RUNNING
    return next(state for state in _WAITING if state in states)


def array_status(array: Array, statuses: Sequence[Status]) -> Status:
    """Return the status of an array, computed from the statuses of its elements, in the form of a run's status. A final
    one has the reason, the exit code and the message of the first element that ended in the array's state."""
    state = overall_state(count_states(statuses), array.search is not None)
    started = min((status.started for status in statuses if status.started is not None), default=None)
    if state not in RunState.FINAL:
        return Status(state, started=started)
    ended = max((status.ended for status in statuses if status.ended is not None), default=None)
    first = next(index for index, status in enumerate(statuses) if status.state == state)
    status = statuses[first]
    message = f"{element_id(array.run_id, first)}: {status.message}" if status.message else ""
    return Status(state, status.reason, status.exit_code, message, None, started, ended)


def array_summary(array: Array, statuses: Sequence[Status]) -> dict[str, Any]:
    """Return the data that a list of runs shows of an array, in the form of a run's summary, with the number of
    elements in each state under "states"."""
    whole = summary_of(array, (array.nodes, array.ranks), array_status(array, statuses))
    return {**whole, "states": count_states(statuses)}


def array_result(array: Array, statuses: Sequence[Status]) -> dict[str, Any]:
    message = array_status(array, statuses).message
    return {"summary": array_summary(array, statuses), "message": message, "failure": None}
