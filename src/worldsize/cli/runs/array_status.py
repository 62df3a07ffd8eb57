"""The output of `status`, `wait` and `cancel` for an array, and for a run as an element of one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from worldsize.cli.runs.array import element_name, element_text, states_text, values_text
from worldsize.cli.runs.wait_and_usage import waiting_lines
from worldsize.common.named_tuple import Any
from worldsize.plan.array import array_file, element_id
from worldsize.plan.run_paths import RunPaths
from worldsize.service.runs.array import RunArray
from worldsize.service.runs.run import Run
from worldsize.state.array import count_states
from worldsize.state.records import RunState, Status

_SHOWN = 10
_EXPLAINED_WITHIN = 5.0


class ArrayView:
    """The counterpart of `RunView` for an array."""

    def __init__(self, array: RunArray) -> None:
        self._array = array

    def data(self, statuses: Sequence[Status]) -> dict[str, Any]:
        """Return the values of an array that `status -o json` prints in addition to those of every run: {elements:
        [{id, inputs, state, reason, exit_code, message}]}."""
        rows = [
            {
                "id": element_id(self._array.id, number),
                "inputs": dict(self._array.values(number)),
                "state": status.state,
                "reason": status.reason,
                "exit_code": status.exit_code,
                "message": status.message,
            }
            for number, status in enumerate(statuses)
        ]
        return {"elements": rows}

    def remark(self) -> str:
        at_once = self._array.array.at_once
        return f"; at most {at_once} at once" if at_once else ""

    def details(self, statuses: Sequence[Status]) -> list[str]:
        return [states_text(count_states(statuses), sys.stdout), *self._search_lines()]

    def efficiency(self, statuses: Sequence[Status]) -> list[str]:
        """Return no lines about how well the array used its nodes, because the efficiency of each element is shown with
        the element."""
        return []

    def explanation(self, statuses: Sequence[Status]) -> list[str]:
        return self._failed_lines(statuses) or self._waiting_lines(statuses)

    def outcome(self, statuses: Sequence[Status]) -> list[str]:
        return [": " + states_text(count_states(statuses)), *self._search_lines()]

    def _search_lines(self) -> list[str]:
        if not self._array.array.search:
            return []
        from worldsize.service.providers import find_provider

        progress = find_provider("search_progress")
        return list(progress.best_lines(self._array)) if progress else []

    def remains_text(self, found: int) -> str:
        return f"; ended {found} left of it" if found else ""

    def _failed_lines(self, statuses: Sequence[Status]) -> list[str]:
        failed = [number for number, status in enumerate(statuses) if status.state in (RunState.FAILED, RunState.LOST)]
        lines = [element_text(self._array, number, statuses[number]) for number in failed[:_SHOWN]]
        if len(failed) > _SHOWN:
            lines.append(f"… and {len(failed) - _SHOWN} more: worldsize list {self._array.id}")
        return lines

    def _waiting_lines(self, statuses: Sequence[Status]) -> list[str]:
        """Return the lines that explain why the first element of the array that is QUEUED waits; none if no element
        waits."""
        first = next((k for k, status in enumerate(statuses) if status.state == RunState.QUEUED), None)
        if first is None:
            return []
        why = self._array[first].wait_explanation(statuses[first], _EXPLAINED_WITHIN)
        lines = waiting_lines(why) if why else [statuses[first].message]
        return [f"{element_name(self._array, first)}: {lines[0]}", *lines[1:]] if lines[0] else []


def array_element_text(run: Run) -> str:
    """Return a text that states which element of its array a run is, and its inputs that vary: "element 3 of 8:
    lr=0.1"; "" if the run is no element."""
    place = run.plan.array
    if place is None:
        return ""
    array = RunArray(RunPaths(os.path.dirname(run.directory)), os.environ)
    values = values_text(array.values(place.element)) if os.path.exists(array_file(array.directory)) else ""
    return "element {} of {}{}".format(place.element, place.elements, ": " + values if values else "")
