"""The files that trials write to their array's directory, which all nodes share: a record for each trial, and, computed
from the records, the table of all trials and the best configuration. The last trial to end sees all records; two trials
that write at the same time do no harm."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from worldsize.common.atomic_files import read_json, read_object, write_bytes
from worldsize.common.json_values import PARSE_ERRORS, check_fields, tuple_of
from worldsize.errors import StorageError
from worldsize.plan.array import Array, element_root
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import RunState
from worldsize.state.result import status_of
from worldsize.trust.trees import path_within
from worldsize.wings.trials.agent.search import (
    FAILED,
    TrialResult,
    best_result,
    results_csv,
    with_reports,
    with_settings,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

TABLE = "trials.csv"


def record_file(root: str) -> str:
    """Return the path of the record that the search's trial in the run directory `root` writes at its end."""
    return os.path.join(root, "trial.json")


def output_names(search: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the two files that a search writes into the outputs of its array: the table of trials, and
    the best configuration."""
    return TABLE, os.path.basename(search["config"])


def trial_record(
    state: str, value: float | None, why: str, started: float | None, ended: float | None
) -> dict[str, Any]:
    """Return the record of a trial as a JSON object: the fields of a `TrialResult` except those that its array
    contains, number and settings. `started` and `ended` are in Unix seconds."""
    at = ended or 0.0
    return {"state": state, "value": value, "seconds": at - (started or at), "why": why, "ended": at}


def read_results(root: str, array: Array) -> List[TrialResult]:
    """Return the TrialResult of each ended trial of a search, whose array is in `root`, in the order of their
    numbers."""
    found = (_read_result(element_root(root, k), k + 1, settings) for k, settings in enumerate(array.values))
    return [each for each in found if each is not None]


def _read_result(root: str, number: int, settings: Mapping[str, Any]) -> TrialResult | None:
    """Return the result that the agent of trial `number`, in the run directory `root`, has recorded; if the record is
    lost, a result from the run's own final status. None if the trial has not ended, or its record is damaged."""
    try:
        told = read_object(record_file(root)) or _lost_record(read_object(RunPaths(root).result))
        own = {"number": number, "settings": settings}
        return check_fields(tuple_of(TrialResult, {**told, **own})) if told else None
    except PARSE_ERRORS:
        return None


def _lost_record(ended: Any) -> dict[str, Any]:
    status = status_of(ended) if ended else None
    if status is None or status.state not in (RunState.FAILED, RunState.LOST):
        return {}
    why = f"{status.reason or status.state}: {status.message}"
    return trial_record(FAILED, None, why, status.started, status.ended)


def write_outputs(root: str, array: Array) -> None:
    """Write the outputs of a search, whose array is in `root`: the table of all ended trials, and the best
    configuration. Repeat this until no further trial has ended meanwhile. Raise OSError."""
    written = None
    while written != (found := read_results(root, array)):
        _write_outputs(RunPaths(root), found, array.search or {})
        written = found


def _write_outputs(paths: RunPaths, results: List[TrialResult], search: Mapping[str, Any]) -> None:
    table, name = output_names(search)
    text = results_csv(results, search["metric"])
    write_bytes(os.path.join(paths.outputs, table), text.encode("utf-8", "backslashreplace"))  # "why" may be any text
    best = best_result(results, search["goal"])
    if best is not None:
        write_bytes(os.path.join(paths.outputs, name), _configuration(paths, search["config"], best.settings, {}))


def write_configuration(array: RunPaths, trial: RunPaths, search: Mapping[str, Any]) -> None:
    """Write the JSON configuration of a trial of a search into the trial's code, under the name of the array's
    configuration file. Raise OSError if the array's file cannot be read, or the trial's not written."""
    name = search["config"]
    data = _configuration(array, name, search["settings"], search)
    path = os.path.join(trial.code, name)
    directory = _path_in_code(trial, os.path.dirname(path), name)
    write_bytes(os.path.join(directory, os.path.basename(path)), data)


def _configuration(array: RunPaths, name: str, settings: Mapping[str, Any], search: Mapping[str, Any]) -> bytes:
    """Return the array's configuration file `name`, as JSON, with a trial's `settings`, and with the keys that make a
    trial of `search` report its metric. Raise OSError."""
    base = base_configuration(array, name)
    try:
        return json.dumps(with_reports(with_settings(base, settings), search), indent=2).encode() + b"\n"
    except RecursionError:
        raise OSError(f"{name} is nested too deep") from None


def base_configuration(array: RunPaths, name: str) -> Mapping[str, Any]:
    """Return the configuration file `name` that the trials of a search vary, as a mapping. It is read only from the
    array's snapshot of the code: if a run is shared, its group can read each trial's configuration, which contains all
    of this one.

    Raise OSError if it does not exist, is located outside of the snapshot, or is no JSON object.
    """
    try:
        value = read_json(_path_in_code(array, os.path.join(array.code, name), name))
    except ValueError as error:
        raise OSError(f"{name} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise OSError(f"there is no {name} in the code (autotune.config names the file to vary)")
    return value


def _path_in_code(paths: RunPaths, path: str, name: str) -> str:
    try:
        return path_within(paths.root, path)
    except StorageError as error:
        raise OSError(f"{name} is not in the snapshot of the code: {error.what}") from None
