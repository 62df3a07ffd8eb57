"""The page of an array: a table of its runs with their inputs and last values, the failures of its runs, and the trials
of a search."""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

from worldsize.cli.console import duration_text, size_text
from worldsize.cli.runs.array import states_text
from worldsize.common.atomic_files import read_object
from worldsize.common.named_tuple import Any
from worldsize.plan.array import element_id
from worldsize.service.providers import find_provider, provider
from worldsize.service.runs.array import RunArray
from worldsize.state.array import count_states
from worldsize.state.records import RunState, Status
from worldsize.trust.secrets import mask, mask_text
from worldsize.wings.report.facts import Child
from worldsize.wings.report.links import TRIALS
from worldsize.wings.report.page import make_section
from worldsize.wings.report.sections.failure import failure_lines
from worldsize.wings.report.sections.head import state_element
from worldsize.wings.report.text import pairs_of, read_text, shorten, time_text, value_text

_ROWS = 2000
_FAILURES = 50
_INPUTS, _METRICS = 24, 8
"""The largest numbers of columns for inputs and for last values."""

_READ = 500
"""The largest number of runs whose values are read."""

_TABLE = 4 << 20


def array_page(array: RunArray, statuses: Sequence[Status]) -> bytes:
    """Return the report page of an array of runs, as HTML in UTF-8. `statuses` contains the status of each element.
    Raise ConfigError if this installation does not include the wing `pictures`."""
    pictures = provider("pictures")
    makers: list[tuple[str, str, Callable[[], list[Child]]]] = [
        ("array", "The array", partial(_head, pictures, array, statuses)),
        ("trials", "Trials", partial(_trials, pictures, array)),
        ("runs", "Its runs", partial(_runs, pictures, array, statuses)),
        ("failures", "Why some failed", partial(_failures, pictures, array, statuses)),
    ]
    sections = [each for name, title, make in makers for each in make_section(pictures, name, title, make)]
    state = array.overall(statuses).state
    page: bytes = pictures.make_page(f"{array.id} {shorten(array.array.name, 200)}: {state}", *sections)
    return page


def _head(pictures: Any, array: RunArray, statuses: Sequence[Status]) -> list[Child]:
    whole, record = array.overall(statuses), read_object(array.paths.record)
    pairs = [
        ("state", state_element(pictures, whole.state)),
        ("runs", states_text(count_states(statuses))),
        ("size", size_text(array)),
        ("submitted", time_text(array.array.created)),
        ("started", time_text(whole.started)),
        ("ended", time_text(whole.ended)),
        *pairs_of(record, {"user": "by", "host": "on", "cwd": "directory at that time", "worldsize": "worldsize"}),
        ("array directory", array.directory),
        ("page made", time_text(time.time())),
    ]
    return [pictures.key_values([pair for pair in pairs if pair[1]])]


def _runs(pictures: Any, array: RunArray, statuses: Sequence[Status]) -> list[Child]:
    shown = list(enumerate(statuses))[:_ROWS]
    every_input = (name for number, _ in shown for name in islice(array.values(number), _INPUTS))
    inputs = list(dict.fromkeys(every_input))[:_INPUTS]
    begun = [number for number, status in shown if status.started is not None]
    values = {number: _last_values(array, number) for number in begun[:_READ]}
    names = list(dict.fromkeys(name for each in values.values() for name in each))[:_METRICS]
    rows = [
        [
            element_id(array.id, number),
            state_element(pictures, status.state),
            value_text(status.reason),
            value_text(status.exit_code),
            _took_text(status),
            *(value_text(mask(name, value_text(array.values(number).get(name)))) for name in inputs),
            *(last.get(name, "") for last in [values.get(number, {})] for name in names),
        ]
        for number, status in shown
    ]
    named = (shorten(mask_text(name), 80) for name in (*inputs, *names))
    headers = ("run", "state", "reason", "exit code", "took", *named)
    left = len(statuses) - len(shown)
    return [pictures.table(headers, rows), *([pictures.element("p", f"{left} more are left out.")] if left else [])]


def _took_text(status: Status) -> str:
    return "" if status.started is None or status.ended is None else duration_text(status.ended - status.started)


def _last_values(array: RunArray, number: int) -> Mapping[str, str]:
    """Return a mapping of each metric name that element `number` of the array has logged to its last value, as text. If
    several ranks logged the name, the lowest rank's value is returned. Empty without the wing `metrics`."""
    metrics = find_provider("metrics")
    if metrics is None:
        return {}
    series = metrics.read_series(array[number].paths, False, array.is_own)
    found: dict[str, str] = {}
    for each in sorted(series, key=lambda each: -1 if each.rank is None else each.rank):
        if each.points:
            found.setdefault(each.name, metrics.series_row(each)[0][1])
    return found


def _failures(pictures: Any, array: RunArray, statuses: Sequence[Status]) -> list[Child]:
    bad = [number for number, status in enumerate(statuses) if status.state in (RunState.FAILED, RunState.LOST)]
    found = [_failure(pictures, array, number, statuses[number]) for number in bad[:_FAILURES]]
    left = len(bad) - len(found)
    return [*found, *([pictures.element("p", f"{left} more failed.")] if left else [])]


def _failure(pictures: Any, array: RunArray, number: int, status: Status) -> Child:
    lines = failure_lines(array[number], status)
    title = f"{element_id(array.id, number)} {status.state}: {status.message.partition(chr(10))[0]}"
    return pictures.details(shorten(mask_text(title), 300), pictures.element("pre", mask_text("\n".join(lines))))


def _trials(pictures: Any, array: RunArray) -> list[Child]:
    """Render the trials of a search as elements of the array's report page: the best result so far, and the table of
    its trials. Return an empty list if the array is no search."""
    if not array.array.search:
        return []
    progress = find_provider("search_progress")
    found = [pictures.element("p", line) for line in (progress.best_lines(array) if progress else [])]
    rows = list(_csv_rows(os.path.join(array.paths.outputs, TRIALS)))
    return [*found, pictures.table(rows[0], rows[1:])] if rows else found


def _csv_rows(path: str) -> Iterator[list[str]]:
    """Yield the rows of the CSV file `path`, a search's table of trials, as lists of cells, each with the number of
    cells of the first row. Yield no rows if the file cannot be read."""
    try:
        text = read_text(path, _TABLE, mask_text)
    except OSError:
        return
    width = 0
    for number, row in enumerate(csv.reader(io.StringIO(text))):
        width = width or len(row)
        if number > _ROWS:
            return
        yield [shorten(cell) for cell in (row + [""] * width)[:width]]
