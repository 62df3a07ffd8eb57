"""A trial of a search, for its head's supervisor: whether it starts, when it has reported enough, and its record."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping

from worldsize.agent.outcome import verdict
from worldsize.agent.outcome.node_record import note
from worldsize.agent.outcome.verdict import Verdict
from worldsize.common.atomic_files import open_regular_file, try_unlink, write_json
from worldsize.errors import WorldsizeError
from worldsize.plan.array import Array, array_of, read_array
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure, Reason
from worldsize.wings.trials.agent.record import (
    read_results,
    record_file,
    trial_record,
    write_configuration,
    write_outputs,
)
from worldsize.wings.trials.agent.search import (
    FAILED,
    LEFT_OUT,
    MEASURED,
    best_result,
    end_state,
    metric_values,
    reason_to_leave_out,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

_EVERY = 0.2
_MOST_BYTES = 1 << 20
_LONGEST_LINE = 1 << 16


class MetricLog:
    """The values of a metric in a log that grows. Text more than a megabyte before the end of the log, and lines longer
    than 64 KiB, are skipped."""

    def __init__(self, path: str, metric: str) -> None:
        self._path = path
        self._metric = metric
        self._read = 0
        self._rest = b""

    def new_values(self) -> List[float]:
        """Return the values of the metric in whole lines that were written to the log since the last call; an empty
        list if the log cannot be read."""
        try:
            with open(open_regular_file(self._path), "rb") as file:
                new = self._read_new(file)
        except OSError:
            return []
        *whole, rest = (self._rest + new).split(b"\n")
        self._rest = rest[-_LONGEST_LINE:]
        lines = [line for line in whole if len(line) < _LONGEST_LINE]
        return metric_values(self._metric, b"\n".join(lines).decode(errors="replace"))

    def _read_new(self, file: Any) -> bytes:
        size = os.fstat(file.fileno()).st_size
        behind = size - _MOST_BYTES > self._read
        if behind:
            self._read, self._rest = size - _MOST_BYTES, b""
        file.seek(self._read)
        data: bytes = file.read(_MOST_BYTES)
        self._read += len(data)
        return data.partition(b"\n")[2] if behind else data


class Trial:
    """A trial. The supervisor calls its `deadline` and `tick` as part of its own."""

    def __init__(self, plan: Plan, paths: RunPaths) -> None:
        """Open the trial of a search that the run with this plan is. Raise OSError if the run is no element of an
        array, WorldsizeError if the array's file is damaged."""
        place = array_of(paths)
        array = read_array(place[0]) if place else None
        if place is None or array is None:
            raise OSError("a trial is an element of an array, and there is none")
        self._paths = paths
        self._root, self._number = place
        self._array: Array = array
        self._search: Mapping[str, Any] = plan.options["search"]
        self._log = MetricLog(paths.rank_log(0), self._search["metric"])
        self._told = 0
        self._value: float | None = None
        self._best: float | None = None
        self._state = MEASURED
        self._began = self._look_at = 0.0
        self._created = time.time()

    def prepare(self) -> Failure | None:
        """Remove the trial's record of an earlier attempt, and write its configuration file. Return a Failure with the
        reason why the ranks must not start; None if they can."""
        try_unlink(record_file(self._paths.root))
        results = read_results(self._root, self._array)
        best = best_result(results, self._search["goal"])
        self._best = best.value if best else None
        why = reason_to_leave_out(self._search["settings"], results, self._search)
        if why:
            return self._failure(Reason.LEFT_OUT, why)
        try:
            write_configuration(RunPaths(self._root), self._paths, self._search)
        except OSError as error:
            return self._failure(Reason.STORAGE, str(error))
        return None

    def start(self, now: float) -> None:
        """Start to count the trial's seconds at `now`, when its ranks start."""
        self._began, self._look_at = now, now + _EVERY

    def deadline(self) -> float | None:
        return self._look_at or None

    def tick(self, now: float) -> Verdict | None:
        """Read the values of the metric that rank 0 has logged since the last call. Return the Verdict with which the
        trial must end; None while it may continue."""
        if not self._look_at or now < self._look_at:
            return None
        self._look_at = now + _EVERY
        self._listen()
        state = end_state(self._told, self._value, self._best, now - self._began, self._search)
        if not state:
            return None
        self._look_at, self._state = 0.0, state
        if state != FAILED:
            return Verdict(verdict.COMPLETE, None)
        what = f"it did not report its {self._search['metric']} within {self._search['timeout']:g} s (autotune.timeout)"
        return Verdict(verdict.TIMEOUT, self._failure(Reason.TIME_LIMIT, what, verdict.TIMEOUT_CODE))

    def _listen(self) -> None:
        values = self._log.new_values()
        if values:
            self._told += len(values)
            self._value = values[-1]

    def conclude(self, found: Verdict | None) -> Verdict | None:
        """Read the last values of the metric in rank 0's log. Return the Verdict on the ended trial: a failure if it
        has never reported its metric although the supervisor's verdict `found` names none, otherwise `found`."""
        self._listen()
        if (found is None or found.why == verdict.COMPLETE) and self._value is None:
            what = f"it never reported its {self._search['metric']}"
            return Verdict(verdict.FAILURE, self._failure(Reason.EXIT_CODE, what))
        return found

    def write_record(self, failure: Failure | None) -> None:
        """Write the trial's record: its state (measured, unless there is a `failure`, which contains no secret), its
        value, reason and times. Never raise."""
        state, value, why = self._state, self._value, ""
        if failure is not None:
            left_out = failure.reason == Reason.LEFT_OUT
            state, value = LEFT_OUT if left_out else FAILED, None
            why = failure.message if left_out else f"{failure.reason}: {failure.message}"
        record = trial_record(state, value, why, self._created, time.time())
        self._guard(lambda: write_json(record_file(self._paths.root), record))

    def write_outputs(self) -> None:
        """Write the table of trials and the best configuration of the search from all trials that have ended. Never
        raise."""
        self._guard(lambda: write_outputs(self._root, self._array))

    def _guard(self, write: Callable[[], object]) -> None:
        try:
            write()
        except (OSError, WorldsizeError) as error:
            note(f"trial {self._number + 1}: {error}")

    def _failure(self, reason: str, what: str, code: int = 1) -> Failure:
        return Failure(reason, what, None, None, code, time.time())
