"""`result.json`: a result as a file, which is written after each world, and read again by `--to` and `--against`."""

from __future__ import annotations

import json
import os

from worldsize.common.atomic_files import read_file, storage_error, write_json
from worldsize.common.json_values import PARSE_ERRORS, check_fields, require_version, tuple_of
from worldsize.common.named_tuple import Any
from worldsize.errors import NewerFormat, UsageError
from worldsize.snapshot.ignore_rules import RESULT_MARK
from worldsize.wings.bench.result import RESULT_VERSION, BenchResult, Measurement

RESULT = "result.json"
_MOST_BYTES = 64 << 20
"""The maximum size of a result file. A result of 64 worlds has some kilobytes."""
_HINT = "name the result.json that `worldsize bench` has written, or its directory"


def write_result(result: BenchResult, directory: str) -> None:
    """Write a benchmark's `result` to `result.json` in `directory`, replacing the file as a whole. Mark the directory
    so that snapshots of code leave it out. Raise StorageError."""
    path = os.path.join(directory, RESULT)
    measurements = [{**each._asdict(), "world": each.world._asdict()} for each in result.measurements]
    try:
        write_json(path, {**result._asdict(), "measurements": measurements})
        with open(os.path.join(directory, RESULT_MARK), "ab"):
            pass
    except OSError as error:
        raise storage_error(error, path) from None


def read_result(path: str) -> BenchResult:
    """Read a benchmark's result, the file `path` or the `result.json` of the directory `path`, and check it. Raise
    UsageError if there is none, or if it is invalid."""
    if os.path.isdir(path):
        path = os.path.join(path, RESULT)
    try:
        return _parse(json.loads(read_file(path, _MOST_BYTES)))
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror or error}", path, _HINT) from None
    except NewerFormat as error:
        raise UsageError(error.what, path, error.hint) from None
    except PARSE_ERRORS as error:
        raise UsageError(f"is not a result of a benchmark: {error!s:.200}", path, _HINT) from None


def _parse(value: Any) -> BenchResult:
    require_version(value, RESULT_VERSION, "result of a benchmark")
    result = check_fields(tuple_of(BenchResult, value))
    if not all(len(row) == 2 for row in (*result.hardware, *result.software)):
        raise ValueError("a row of hardware or software is not a pair")
    for measurement in result.measurements:
        _check(measurement)
    return result


def _check(measurement: Measurement) -> None:
    """Raise ValueError if the values of a measurement in a result file are impossible: a world without ranks, or a
    figure below 0."""
    world = measurement.world
    if world.nodes < 1 or world.ranks_per_node < 1:
        raise ValueError(f"{world} is not a world size")
    numbers = (measurement.rate, measurement.seconds, measurement.held, *measurement.rates, measurement.gpus)
    if any(number is not None and number < 0 for number in numbers):
        raise ValueError(f"a figure of {world} is below 0")
