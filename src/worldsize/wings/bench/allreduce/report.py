"""The report that the first rank of an all-reduce writes. Its size is limited, and it is read as figures only."""

from __future__ import annotations

import json
import os

from worldsize.common.atomic_files import read_file
from worldsize.common.json_values import PARSE_ERRORS, check_fields, tuple_of
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import NotFound, WorldsizeError

_MOST_BYTES = 1 << 20
_MOST_ROWS, _MOST_RANKS, _MOST_TEXT, _MOST_SOFTWARE = 200, 1 << 20, 100, 20
_LARGEST, _LEAST = 1 << 42, 1e-9
"""The largest size in bytes, and the lower limit of a time in seconds."""
NAME = "bench.json"


class Row(NamedTuple):
    """The results of one size: `size` in bytes, `count` in elements, the seconds of one all-reduce in place, and into
    another buffer if the library supports that, and how many elements were wrong afterwards."""

    size: int
    count: int  # type: ignore[assignment]  # hides tuple.count
    seconds: float
    wrong: int
    iterations: int
    out_seconds: float | None = None
    out_wrong: int | None = None


class Report(NamedTuple):
    rows: tuple[Row, ...]
    ranks: int
    backend: str
    device: str
    dtype: str
    gpus: int
    threads: int
    software: dict[str, str]

    @property
    def wrong(self) -> int:
        return sum(row.wrong + (row.out_wrong or 0) for row in self.rows)


def read_report(outputs: str) -> Report:
    """Read the all-reduce report that the first rank wrote into the directory `outputs` of its run. Raise NotFound if
    there is none, and WorldsizeError if it cannot be read or is invalid."""
    path = os.path.join(outputs, NAME)
    try:
        return parse_report(json.loads(read_file(path, _MOST_BYTES)))
    except FileNotFoundError:
        raise NotFound("the first rank has written no figures", path) from None
    except OSError as error:
        raise WorldsizeError(f"cannot be read: {error.strerror or error}", path) from None
    except PARSE_ERRORS as error:
        raise WorldsizeError(f"is not a report of an all-reduce: {error!s:.200}", path) from None


def parse_report(value: Any) -> Report:
    """Parse an all-reduce report from its JSON value, and cut its texts to a limited length. Raise one of PARSE_ERRORS,
    such as ValueError, if the value is not a valid report."""
    report = check_fields(tuple_of(Report, value))
    if not 0 < len(report.rows) <= _MOST_ROWS:
        raise ValueError(f"it has {len(report.rows)} rows")
    if not (0 < report.ranks <= _MOST_RANKS and 0 <= report.gpus <= report.ranks and report.threads >= 0):
        raise ValueError(f"{report.ranks} ranks, {report.gpus} GPUs and {report.threads} threads are impossible")
    for row in report.rows:
        _check_row(row)
    texts = {name: getattr(report, name)[:_MOST_TEXT] for name in ("backend", "device", "dtype")}
    software = {name[:_MOST_TEXT]: text[:_MOST_TEXT] for name, text in list(report.software.items())[:_MOST_SOFTWARE]}
    return report._replace(**texts, software=software)


def _check_row(row: Row) -> None:
    """Raise ValueError if the figures of a row of an all-reduce report are impossible, such as a time of 0."""
    times = (row.seconds, row.seconds if row.out_seconds is None else row.out_seconds)
    numbers = (row.wrong, row.out_wrong or 0, row.iterations)
    if not 0 < row.count <= row.size <= _LARGEST or min(numbers) < 0 or not all(each > _LEAST for each in times):
        raise ValueError(f"{row.size} bytes: a figure is impossible")
