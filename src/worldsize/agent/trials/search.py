"""A search for the best configuration, without processes: which trial comes next, what each one's configuration is, and
what was found."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Pattern

MEASURED = "measured"
GIVEN_UP = "given up"
FAILED = "failed"
LEFT_OUT = "left out"

HOPELESS = 0.5
"""A trial that is less than half as good as the best one is given up as soon as that shows."""

_MICRO_BATCH = "train_micro_batch_size_per_gpu"
_TOTAL = "train_batch_size"
_ACCUMULATION = "gradient_accumulation_steps"
_NUMBER = r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"
_MEMORY = re.compile(r"out.of.memory|OutOfMemory|MemoryError|\boom\b", re.IGNORECASE)


class Result(NamedTuple):
    """What came of one trial: `value` of the metric, None without one; `why` it failed or was left out."""

    number: int
    settings: Mapping[str, Any]
    state: str
    value: float | None
    seconds: float
    why: str = ""


class Search:
    """`trials` are tried in their order. `goal`: "max" or "min" of the metric. `patience`: the search ends after so
    many trials in a row that were not better than the best one."""

    def __init__(self, trials: Sequence[Mapping[str, Any]], goal: str, patience: int | None) -> None:
        self.results: List[Result] = []
        self.count = len(trials)
        self._waiting = list(enumerate(trials, 1))
        self._sign = 1 if goal == "max" else -1
        self._patience = patience
        self._vain = 0
        self._full: List[Mapping[str, Any]] = []

    def take_trial(self) -> tuple[int, Mapping[str, Any]] | None:
        """The next one to try, with its number from 1; None once there is nothing more to try."""
        while self._waiting:
            number, settings = self._waiting.pop(0)
            why = self._reason_to_skip(settings)
            if not why:
                return number, settings
            self.results.append(Result(number, settings, LEFT_OUT, None, 0.0, why))
        return None

    def record(self, result: Result) -> None:
        better = result.state == MEASURED and self._is_better(result.value)
        self._vain = 0 if better or self.best is None else self._vain + 1
        if result.state == FAILED and _MEMORY.search(result.why):
            self._full.append(result.settings)
        self.results.append(result)

    @property
    def best(self) -> Result | None:
        measured = [result for result in self.results if result.state == MEASURED and result.value is not None]
        return max(measured, key=lambda result: self._sign * (result.value or 0.0), default=None)

    def is_hopeless(self, value: float) -> bool:
        best = self.best
        if best is None or not best.value or best.value < 0:
            return False
        return value < best.value * HOPELESS if self._sign > 0 else value > best.value / HOPELESS

    def _is_better(self, value: float | None) -> bool:
        best = self.best
        return value is not None and (best is None or self._sign * value > self._sign * (best.value or 0.0))

    def _reason_to_skip(self, settings: Mapping[str, Any]) -> str:
        if self._patience is not None and self._vain >= self._patience:
            return f"patience is at its end: {self._vain} in a row were no better"
        for full in self._full:
            if _is_same_but_size(full, settings) and _size(settings) >= _size(full):
                return f"a micro-batch of {full[_MICRO_BATCH]} was too large for the memory"
        return ""


def _is_same_but_size(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    names = one.keys() | other.keys()
    return _MICRO_BATCH in names and all(one.get(name) == other.get(name) for name in names - {_MICRO_BATCH})


def _size(settings: Mapping[str, Any]) -> float:
    value = settings[_MICRO_BATCH]
    return value if isinstance(value, (int, float)) else math.inf


def with_settings(base: Mapping[str, Any], settings: Mapping[str, Any]) -> Dict[str, Any]:
    """`base` with the `settings`, whose names are paths with dots. Where the micro-batch is set and the whole batch is
    said too, the number of accumulated steps follows from both."""
    found: Dict[str, Any] = json.loads(json.dumps(base))
    if _MICRO_BATCH in settings and _TOTAL in found and _ACCUMULATION not in settings:
        found.pop(_ACCUMULATION, None)
    for path, value in settings.items():
        *parents, name = path.split(".")
        place = found
        for parent in parents:
            if not isinstance(place.get(parent), dict):
                place[parent] = {}
            place = place[parent]
        place[name] = value
    return found


def metric_pattern(metric: str) -> Pattern[str]:
    """A line of rank 0's with the metric: DeepSpeed's own of its throughput, or NAME=NUMBER."""
    name = "RunningAvgSamplesPerSec" if metric == "throughput" else re.escape(metric)
    return re.compile(rf"(?<![\w.]){name} *= *{_NUMBER}(?![\w.]*\w)")


def metric_values(pattern: Pattern[str], lines: Iterable[str]) -> List[float]:
    return [float(found[1]) for line in lines for found in pattern.finditer(line)]


def results_csv(results: Iterable[Result], metric: str) -> str:
    """All trials as CSV, in their order: the settings, the metric, what became of it."""
    import csv
    import io

    rows = sorted(results, key=lambda result: result.number)
    names = list(dict.fromkeys(name for result in rows for name in result.settings))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", *names, metric, "state", "seconds", "why"])
    for each in rows:
        value = "" if each.value is None else f"{each.value:.6g}"
        said = [each.settings.get(name, "") for name in names]
        writer.writerow([each.number, *map(_value_text, said), value, each.state, f"{each.seconds:.1f}", each.why])
    return text.getvalue()


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def settings_text(settings: Mapping[str, Any]) -> str:
    short = {_MICRO_BATCH: "micro_batch", "zero_optimization.stage": "zero_stage"}
    return " ".join(f"{short.get(name, name)}={_value_text(value)}" for name, value in settings.items())
