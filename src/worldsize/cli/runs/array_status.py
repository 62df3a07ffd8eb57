"""status, wait, cancel of an array of runs."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from worldsize.cli.console import duration_text, request_cancel, state_text
from worldsize.cli.output import report, show, show_json
from worldsize.cli.runs.array import element_name, element_text, size_text, states_text, values_text
from worldsize.cli.runs.wait_and_usage import usage_text, waiting_lines
from worldsize.common.atomic_files import printable_text
from worldsize.errors import NotFound
from worldsize.plan.array import array_file, element_id
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.array import RunArray
from worldsize.service.runs.compute_reports import wait_explanation
from worldsize.service.runs.run import Run
from worldsize.state.array import array_status, array_summary, count_states
from worldsize.state.records import RunState, Status

_SHOWN = 10
_TIMED_OUT = 124
_EXPLAINED_WITHIN = 5.0


def show_array_status(array: RunArray, options: argparse.Namespace) -> int:
    if not os.path.isdir(array.directory):
        raise NotFound(f"its directory was deleted: {array.directory}", f"array {array.id}")
    statuses = array.statuses()
    if options.output == "json":
        show_json(status_data(array, statuses))
    else:
        show(*_lines(array, statuses))
    return 0


def status_data(array: RunArray, statuses: Sequence[Status]) -> dict[str, Any]:
    """{id, name, state, …, states, usage, message, directory,
    elements: [{id, inputs, state, reason, exit_code, message}]}"""
    rows = [
        {
            "id": element_id(array.id, number),
            "inputs": dict(array.values(number)),
            "state": status.state,
            "reason": status.reason,
            "exit_code": status.exit_code,
            "message": status.message,
        }
        for number, status in enumerate(statuses)
    ]
    message = array_status(array.array, statuses).message
    used = array.usage()
    data = {**array_summary(array.array, statuses), "usage": used._asdict() if used else None}
    return {**data, "message": message, "directory": array.directory, "elements": rows}


def _lines(array: RunArray, statuses: Sequence[Status]) -> list[str]:
    common, now = array.array, array_status(array.array, statuses)
    reason = f" ({now.reason})" if now.reason else ""
    at_once = f"; at most {common.at_once} at once" if common.at_once else ""
    took = f", ran for {duration_text((now.ended or time.time()) - now.started)}" if now.started else ""
    lines = [
        f"{array.id}  {state_text(now.state, sys.stdout)}{reason}",
        f"{printable_text(common.name)}: {size_text(array)}{at_once}",
        states_text(count_states(statuses), sys.stdout),
        f"made {duration_text(time.time() - common.created)} ago{took}",
        array.directory,
    ]
    used = usage_text(array.usage())
    if used:
        lines.insert(-1, "used " + used)
    said = _failed_lines(array, statuses) or _waiting_lines(array, statuses)
    return [*lines, "", *said] if said else lines


def _failed_lines(array: RunArray, statuses: Sequence[Status]) -> list[str]:
    failed = [number for number, status in enumerate(statuses) if status.state in (RunState.FAILED, RunState.LOST)]
    lines = [element_text(array, number, statuses[number]) for number in failed[:_SHOWN]]
    if len(failed) > _SHOWN:
        lines.append(f"… and {len(failed) - _SHOWN} more: worldsize list {array.id}")
    return lines


def _waiting_lines(array: RunArray, statuses: Sequence[Status]) -> list[str]:
    """Why the first one that waits does, where nothing else is to be said."""
    first = next((k for k, status in enumerate(statuses) if status.state == RunState.QUEUED), None)
    if first is None:
        return []
    why = wait_explanation(array[first], statuses[first], _EXPLAINED_WITHIN)
    lines = waiting_lines(why) if why else [statuses[first].message]
    return [f"{element_name(array, first)}: {lines[0]}", *lines[1:]] if lines[0] else []


def array_element_text(run: Run) -> str:
    """Which element a run is, and of its inputs those that vary."""
    place = run.plan.array
    if place is None:
        return ""
    array = RunArray(RunPaths(os.path.dirname(run.directory)), os.environ)
    values = values_text(array.values(place.element)) if os.path.exists(array_file(array.directory)) else ""
    return "element {} of {}{}".format(place.element, place.elements, ": " + values if values else "")


def wait(array: RunArray, options: argparse.Namespace) -> int:
    statuses = array.follow(lambda _: None, options.timeout)
    now = array_status(array.array, statuses)
    if options.output == "json":
        show_json(status_data(array, statuses))
    else:
        report(f"{array.id} is {now.state}: {states_text(count_states(statuses))}")
    if not now.final:
        return _TIMED_OUT
    return now.exit_code or 0


def cancel(array: RunArray, options: argparse.Namespace) -> int:
    before = array.look()
    if before.final:
        found = array.end_remains()
        report("{} is {} already{}".format(array.id, before.state, f"; ended {found} left of it" if found else ""))
        return 0
    request_cancel(array.id, lambda: array.ask_to_end(options.now))
    return 0
