"""logs of an array: every element's, each line with the element's number in front."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from worldsize.cli.output import show_log
from worldsize.logs.selection import parse_elements
from worldsize.service.runs.array import RunArray
from worldsize.service.runs.run import Run
from worldsize.state.array import array_status
from worldsize.state.records import RunState, Status

if TYPE_CHECKING:
    from worldsize.cli.runs.follow import LogReader

_PAUSE = 0.1
_LOOK_EVERY = 0.5
_NOT_STARTED = (RunState.CREATED, RunState.PREPARING, RunState.QUEUED)

ReaderFactory = Callable[[Run, Callable[[str], object]], "LogReader"]


class ElementOutput:
    """Text of several elements on one output, in whole lines."""

    def __init__(self, output: str) -> None:
        self._json = output == "json"
        self._open: int | None = None

    def write(self, element: int, text: str) -> None:
        goes_on = self._open == element
        out = "\n" if self._open is not None and not goes_on else ""
        for line in text.splitlines(keepends=True):
            out += line if goes_on else self._with_element(element, line)
            goes_on = not line.endswith("\n")
        self._open = element if goes_on else None
        show_log(out)

    def _with_element(self, element: int, line: str) -> str:
        return f'{{"element": {element}, {line[1:]}' if self._json else f"{element}/{line}"


def show_array_logs(array: RunArray, options: argparse.Namespace, open_reader: ReaderFactory) -> int:
    """Element after element; with --follow those that run at the same time in turns, until all have ended."""
    chosen = parse_elements(options.element, len(array)) if options.element else range(len(array))
    merged = ElementOutput(options.output)
    if options.follow:
        return _follow(array, chosen, open_reader, merged)
    for element, _ in _started_elements(chosen, array.statuses()):
        open_reader(array[element], partial(merged.write, element)).finish()
    return 0


def _follow(array: RunArray, chosen: Sequence[int], open_reader: ReaderFactory, merged: ElementOutput) -> int:
    readers: dict[int, LogReader] = {}
    done: set[int] = set()
    while True:
        statuses = array.statuses()
        for element, status in _started_elements(chosen, statuses):
            if element not in done and element not in readers:
                readers[element] = open_reader(array[element], partial(merged.write, element))
            if status.final and element not in done:
                readers.pop(element).finish()
                done.add(element)
        if all(statuses[element].final for element in chosen):
            return array_status(array.array, statuses).exit_code or 0
        due = time.monotonic() + max(_LOOK_EVERY, array.pause(statuses))
        while time.monotonic() < due:
            for reader in readers.values():
                reader.poll()
            time.sleep(_PAUSE)


def _started_elements(chosen: Sequence[int], statuses: Sequence[Status]) -> Iterator[tuple[int, Status]]:
    """Those that have logs: an element that was never started has none."""
    for element in chosen:
        status = statuses[element]
        if status.state not in _NOT_STARTED and not (status.final and status.started is None):
            yield element, status
