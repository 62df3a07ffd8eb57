"""Several runs in one submission, on the command line: its options, its dry run, following all of them."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from worldsize.cli.console import duration_text, nodes_and_ranks_text, state_text
from worldsize.cli.output import report, show, show_transient_line
from worldsize.cli.runs.follow import DetachRequest, FollowSignals
from worldsize.cli.runs.wait_and_usage import usage_text
from worldsize.plan.array import element_id
from worldsize.plan.run_paths import RunPaths
from worldsize.service.request import SubmissionRequest
from worldsize.service.runs.array import RunArray
from worldsize.state.array import array_status, count_states
from worldsize.state.records import RunState, Status

_SHOWN = 5
_EVERY = 5.0
_ACCOUNTING_LAG = 1.0

SubmitCallback = Callable[[RunPaths], None]


def run_array(
    request: SubmissionRequest,
    signals: FollowSignals,
    options: argparse.Namespace,
    start: Callable[[SubmissionRequest, SubmitCallback], RunPaths],
) -> int:
    def submitting(paths: RunPaths) -> None:
        signals.run = RunArray(paths, request.environ)

    array = RunArray(start(request, submitting), request.environ)
    report(f"array {array.id}: {size_text(array)}")
    if options.detach:
        show(array.id)
        return 0
    return follow_array(array, signals, options.quiet)


def values_text(values: Mapping[str, Any]) -> str:
    return " ".join("{}={}".format(*item) for item in values.items())


def states_text(states: Mapping[str, int], stream: Any = None) -> str:
    return ", ".join(f"{number} {state_text(state, stream) if stream else state}" for state, number in states.items())


def size_text(array: RunArray) -> str:
    common = array.array
    each = nodes_and_ranks_text(common.nodes, common.ranks)
    return "{} run{} of {} on {}".format(len(array), "" if len(array) == 1 else "s", each, common.compute)


def element_name(array: RunArray, element: int) -> str:
    values = array.values(element)
    return element_id(array.id, element) + (f" ({values_text(values)})" if values else "")


def element_text(array: RunArray, element: int, status: Status) -> str:
    """`RUN_3 (lr=0.1) FAILED: EXIT_CODE: rank 0 …`"""
    words = [element_name(array, element) + " " + status.state, status.reason, status.message.partition("\n")[0]]
    return ": ".join(word for word in words if word)


class ArrayProgress:
    """One line with the number of elements in each state, and a line for each of the first that fail."""

    def __init__(self, array: RunArray, quiet: bool) -> None:
        self._array = array
        self._terminal = sys.stderr.isatty() and not quiet
        self._quiet = quiet
        self._told: set[int] = set()
        self._shown = ""
        self._due = 0.0

    def show(self, statuses: list[Status]) -> None:
        failed = [k for k, status in enumerate(statuses) if status.state in (RunState.FAILED, RunState.LOST)]
        new = [k for k in failed if k not in self._told]
        if new and len(self._told) < _SHOWN and not self._quiet:
            self.clear()
            for element in new[: _SHOWN - len(self._told)]:
                report(element_text(self._array, element, statuses[element]))
        self._told.update(new)
        self._line(states_text(count_states(statuses)), all(status.final for status in statuses))

    def _line(self, text: str, last: bool) -> None:
        if self._terminal:
            show_transient_line(text)
        elif not self._quiet and not last and text != self._shown and time.monotonic() >= self._due:
            report(text)
            self._due = time.monotonic() + _EVERY
        self._shown = text

    def clear(self) -> None:
        if self._terminal:
            show_transient_line()


def follow_array(array: RunArray, signals: FollowSignals, quiet: bool = False) -> int:
    """Show how many elements are where until all have ended, then how they ended; the first failing one's exit code."""
    gc.enable()
    progress = ArrayProgress(array, quiet)
    try:
        signals.follow()
        statuses = array.follow(progress.show)
    except DetachRequest as detached:
        progress.clear()
        report("", f"detached: {array.id} goes on (worldsize wait {array.id})")
        return detached.code
    progress.clear()
    show_array_end(array, statuses)
    return array_status(array.array, statuses).exit_code or 0


def show_array_end(array: RunArray, statuses: list[Status]) -> None:
    status = array_status(array.array, statuses)
    took = f" after {duration_text(status.ended - status.started)}" if status.started and status.ended else ""
    state = state_text(status.state, sys.stderr)
    used = usage_text(array.usage(_ACCOUNTING_LAG))
    told = states_text(count_states(statuses)) + ("; " + used if used else "")
    report(f"array {array.id} {state}{took}: {told}")
    if status.state in (RunState.FAILED, RunState.LOST):
        from worldsize.cli.runs.failure import failure_lines

        first = next(k for k, each in enumerate(statuses) if each.state == status.state)
        report("", f"{element_name(array, first)}:", *failure_lines(array[first], statuses[first]))
        report("", f"the others: worldsize list {array.id}")
