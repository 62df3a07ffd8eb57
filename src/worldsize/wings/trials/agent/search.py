"""The rules of a search for the best configuration, without processes and files: each trial's configuration, the metric
in its log, when a trial ends, which trials are left out, and which one is best.

`search` is the part of a plan or an array about it: config, metric, goal, steps, reports, timeout, patience.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from worldsize.common.json_values import is_number
from worldsize.common.named_tuple import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

MEASURED = "measured"
GIVEN_UP = "given up"
FAILED = "failed"
LEFT_OUT = "left out"

_HOPELESS = 0.5
"""The fraction of the best value below which a trial is given up: it is less than half as good as the best one."""

_MICRO_BATCH = "train_micro_batch_size_per_gpu"
_FULL_NAMES = {"micro_batch": _MICRO_BATCH, "zero_stage": "zero_optimization.stage"}
_TOTAL = "train_batch_size"
_ACCUMULATION = "gradient_accumulation_steps"
_NUMBER = r"([-+]?\.?\d[\w.]*(?:(?<=[eE])[-+]\d[\w.]*)?)"
_MEMORY = r"(?i)out.of.memory|OutOfMemory|MemoryError|\boom\b"


class TrialResult(NamedTuple):
    """The result of a trial.

    number   from 1: the number of its element, which counts from 0, plus one
    state    one of the four words above
    value    of the metric; None if it has reported none that is valid
    seconds  the duration of the trial
    why      the reason why it failed, or was left out
    ended    in Unix seconds
    """

    number: int
    settings: Mapping[str, Any]
    state: str
    value: float | None
    seconds: float
    why: str
    ended: float


def best_result(results: Iterable[TrialResult], goal: str) -> TrialResult | None:
    """Return the result of the trial with the best measured value, the highest if `goal` is "max", else the lowest; the
    first one among equals. None if no trial was measured."""
    measured = sorted(each for each in results if each.state == MEASURED and each.value is not None)
    return max(measured, key=lambda each: _worth(each, goal), default=None)


def _worth(result: TrialResult, goal: str) -> float:
    return (result.value or 0.0) * (1 if goal == "max" else -1)


def end_state(told: int, value: float | None, best: float | None, seconds: float, search: Mapping[str, Any]) -> str:
    """Return the state in which a trial must end now; "" if it may continue. The trial has reported its metric `told`
    times, with `value` as the last one, within `seconds`. `best` is the value of the best other trial."""
    if told >= search["reports"]:
        return MEASURED
    if value is not None and best is not None and _is_hopeless(value, best, search["goal"]):
        return GIVEN_UP
    if seconds >= search["timeout"]:
        return FAILED if value is None else MEASURED
    return ""


def _is_hopeless(value: float, best: float, goal: str) -> bool:
    return best > 0 and (value < best * _HOPELESS if goal == "max" else value > best / _HOPELESS)


def reason_to_leave_out(settings: Mapping[str, Any], results: Iterable[TrialResult], search: Mapping[str, Any]) -> str:
    """Return the reason why a trial with these settings is not worth starting, given the `results` of other trials of
    the `search`; "" if it is worth starting."""
    tried = sorted((each for each in results if each.state != LEFT_OUT), key=lambda each: each.ended)
    vain = _vain_count(tried, search["goal"])
    if search["patience"] is not None and vain >= search["patience"]:
        return f"the search has ended early: {vain} in a row were not better"
    wanted = with_full_names(settings)
    for each in tried:
        full = with_full_names(each.settings)
        if each.state == FAILED and re.search(_MEMORY, each.why) and _is_as_large(wanted, full):
            return f"a micro-batch of {full[_MICRO_BATCH]} was too large for the memory"
    return ""


def _vain_count(tried: Sequence[TrialResult], goal: str) -> int:
    """Return the number of trials in `tried` that have ended since the trial with the best value, without reaching a
    better one; 0 if no trial was measured."""
    best = best_result(tried, goal)
    if best is None:
        return 0
    latest = min(each.ended for each in tried if each.state == MEASURED and _worth(each, goal) == _worth(best, goal))
    return sum(each.ended > latest for each in tried)


def _is_as_large(wanted: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether the trial settings `wanted` are the same as `other`, except for a micro-batch that is at least as
    large. False if one of them has no micro-batch."""
    if _MICRO_BATCH not in wanted or _MICRO_BATCH not in other:
        return False
    names = (wanted.keys() | other.keys()) - {_MICRO_BATCH}
    same = all(wanted.get(name) == other.get(name) for name in names)
    return same and _size(wanted[_MICRO_BATCH]) >= _size(other[_MICRO_BATCH])


def _size(value: Any) -> float:
    return value if isinstance(value, (int, float)) else math.inf


def with_full_names(settings: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the trial's `settings` with short names, such as "micro_batch", replaced by the names that DeepSpeed
    uses."""
    return {_FULL_NAMES.get(name, name): value for name, value in settings.items()}


def with_settings(base: Mapping[str, Any], settings: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the configuration `base` with a trial's `settings`, whose names are paths with dots. If the micro-batch is
    set and `base` contains the whole batch size, the number of accumulation steps is removed: it follows from both."""
    found: Dict[str, Any] = json.loads(json.dumps(base))
    settings = with_full_names(settings)
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


def with_reports(config: Mapping[str, Any], search: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the configuration `config` of a trial, changed so that DeepSpeed reports its throughput, if that is the
    metric of `search`; otherwise unchanged."""
    if search.get("metric") != "throughput":
        return config
    return {**config, "steps_per_print": search["steps"], "log_level": "info"}


def metric_values(metric: str, text: str) -> List[float]:
    """Return the finite values, below 2^63, of the metric named `metric` in `text`, whole lines of rank 0's log:
    DeepSpeed's own report if it is "throughput", otherwise each NAME=NUMBER."""
    name = "RunningAvgSamplesPerSec" if metric == "throughput" else re.escape(metric)
    found = (_number(word) for word in re.findall(rf"(?<![\w.]){name} *= *{_NUMBER}", text))
    return [value for value in found if value is not None]


def _number(word: str) -> float | None:
    try:
        value = math.nan if "_" in word else float(word.rstrip("."))
    except ValueError:
        return None
    return value if is_number(value) else None


def results_csv(results: Sequence[TrialResult], metric: str) -> str:
    """Return the results of all trials of a search as CSV text, by trial number: the settings, the metric, the state,
    the seconds and the reason."""
    import csv
    import io

    rows = [(each, with_full_names(each.settings)) for each in sorted(results)]
    names = list(dict.fromkeys(name for _, settings in rows for name in settings))
    table = [["trial", *names, metric, "state", "seconds", "why"]]
    for each, settings in rows:
        said = [_value_text(settings.get(name, "")) for name in names]
        value = "" if each.value is None else f"{each.value:.6g}"
        table.append([str(each.number), *said, value, each.state, f"{each.seconds:.1f}", each.why])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([cell.replace("\0", "\\0") for cell in row] for row in table)  # Python < 3.11 refuses NULs
    return text.getvalue()


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def result_text(result: TrialResult, metric: str) -> str:
    """Return one line about the result of a trial: its settings, its value of `metric`, and its state and the reason if
    it was not measured."""
    settings = " ".join(f"{name}={_value_text(value)}" for name, value in result.settings.items())
    value = "" if result.value is None else f"  {metric}={result.value:.6g}"
    state = "" if result.state == MEASURED else "  " + result.state
    why = ": " + result.why.splitlines()[0][:200] if result.why else ""
    return settings + value + state + why
