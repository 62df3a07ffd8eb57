"""Arrays on a terminal: the text for their elements, and the progress that is shown while they run."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping

from worldsize.cli.output import report, show_transient_line, state_text
from worldsize.common.named_tuple import Any
from worldsize.plan.array import element_id
from worldsize.service.runs.array import RunArray
from worldsize.state.array import count_states
from worldsize.state.records import RunState, Status

_SHOWN = 5
_EVERY = 5.0


def values_text(values: Mapping[str, Any]) -> str:
    return " ".join("{}={}".format(*item) for item in values.items())


def states_text(states: Mapping[str, int], stream: Any = None) -> str:
    return ", ".join(f"{number} {state_text(state, stream) if stream else state}" for state, number in states.items())


def element_name(array: RunArray, element: int) -> str:
    values = array.values(element)
    return element_id(array.id, element) + (f" ({values_text(values)})" if values else "")


def element_text(array: RunArray, element: int, status: Status) -> str:
    """Return the status of an element of an array as text: `RUN_3 (lr=0.1) FAILED: EXIT_CODE: rank 0 …`."""
    words = [element_name(array, element) + " " + status.state, status.reason, status.message.partition("\n")[0]]
    return ": ".join(word for word in words if word)


class ArrayProgress:
    """The counterpart of `RunProgress` for an array: one line with the number of elements in each state, and a line for
    each of the first elements that fail."""

    def __init__(self, array: RunArray, quiet: bool) -> None:
        self._array = array
        self._terminal = sys.stderr.isatty() and not quiet
        self._quiet = quiet
        self._told: set[int] = set()
        self._shown = ""
        self._due = 0.0
        self.hint = f"worldsize wait {array.id}"

    def poll(self) -> bool:
        return False

    def show_statuses(self, statuses: list[Status]) -> None:
        lines = self._new_lines(statuses)
        if lines and not self._quiet:
            self.finish()
            report(*lines)
        self._line(states_text(count_states(statuses)), all(status.final for status in statuses))

    def _new_lines(self, statuses: list[Status]) -> list[str]:
        failed = [k for k, status in enumerate(statuses) if status.state in (RunState.FAILED, RunState.LOST)]
        new = [k for k in failed if k not in self._told]
        shown = new[: max(0, _SHOWN - len(self._told))]
        self._told.update(new)
        return [element_text(self._array, element, statuses[element]) for element in shown]

    def _line(self, text: str, last: bool) -> None:
        if self._terminal:
            show_transient_line(text)
        elif not self._quiet and not last and text != self._shown and time.monotonic() >= self._due:
            report(text)
            self._due = time.monotonic() + _EVERY
        self._shown = text

    def finish(self) -> None:
        if self._terminal:
            show_transient_line()

    finish_early = finish

    def reason(self, statuses: list[Status]) -> str:
        return states_text(count_states(statuses))

    def outcome(self, statuses: list[Status]) -> list[str]:
        array = self._array
        state = array.overall(statuses).state
        if state not in (RunState.FAILED, RunState.LOST):
            return []
        from worldsize.service.runs.failure_screen import run_failure_lines

        first = next(k for k, each in enumerate(statuses) if each.state == state)
        lines = run_failure_lines(array[first], statuses[first])
        return ["", f"{element_name(array, first)}:", *lines, "", f"the others: worldsize list {array.id}"]
