"""The logs of an array: those of every element, with the element's number in front of each line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from worldsize.cli.output import show_log
from worldsize.cli.runs.follow import LogReader
from worldsize.service.runs.array import RunArray
from worldsize.service.runs.run import Run
from worldsize.state.records import RunState, Status

_NOT_STARTED = (RunState.CREATED, RunState.PREPARING, RunState.QUEUED)

ReaderFactory = Callable[[Run, Callable[[str], object]], LogReader]


class ElementOutput:
    """The text of several elements on one output, in whole lines."""

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


class ElementReaders:
    """Readers of the logs of the `chosen` elements. If they are followed, elements that run at the same time are read
    in turns, and each is read to its end once it has ended. Otherwise they are read one after another."""

    def __init__(self, array: RunArray, chosen: Sequence[int], output: str, open_reader: ReaderFactory) -> None:
        self._array = array
        self._chosen = chosen
        self._open_reader = open_reader
        self._merged = ElementOutput(output)
        self._readers: dict[int, LogReader] = {}
        self._done: set[int] = set()
        self._followed = False

    def poll(self) -> bool:
        new = [reader.poll() for reader in self._readers.values()]
        return any(new)

    def show_statuses(self, statuses: Sequence[Status]) -> bool:
        """Open the logs of the chosen elements of the array that have started, and show the rest of the logs of those
        that have ended. Return whether all chosen elements have ended."""
        self._followed = True
        for element, status in _started_elements(self._chosen, statuses):
            if element not in self._done and element not in self._readers:
                self._readers[element] = self._open(element)
            if status.final and element not in self._done:
                self._readers.pop(element).finish()
                self._done.add(element)
        return all(statuses[element].final for element in self._chosen)

    def finish(self) -> None:
        started = () if self._followed else _started_elements(self._chosen, self._array.statuses())
        for element, _ in started:
            self._open(element).finish()

    def _open(self, element: int) -> LogReader:
        return self._open_reader(self._array[element], partial(self._merged.write, element))


def _started_elements(chosen: Sequence[int], statuses: Sequence[Status]) -> Iterator[tuple[int, Status]]:
    """Yield (element, status) for those of the `chosen` elements of an array that have logs. An element that has not
    started, or has ended without a start, has none."""
    for element in chosen:
        status = statuses[element]
        if status.state not in _NOT_STARTED and not (status.final and status.started is None):
            yield element, status
