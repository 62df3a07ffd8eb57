"""What the first rank of an all-reduce has written: bounded, and taken for nothing but figures."""

from __future__ import annotations

import json
import os

from worldsize.common.atomic_files import read_file
from worldsize.common.json_values import PARSE_ERRORS, check_fields, tuple_of
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.errors import NotFound, WorldsizeError

_MOST_BYTES = 1 << 20
NAME = "bench.json"


class Row(NamedTuple):
    """One size: bytes, elements, seconds of one all-reduce in place, and into another buffer where the library has
    that; how many elements were wrong afterwards."""

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
    """NotFound where there is none, WorldsizeError for what cannot be understood."""
    path = os.path.join(outputs, NAME)
    try:
        return parse_report(json.loads(read_file(path, _MOST_BYTES)))
    except FileNotFoundError:
        raise NotFound("the first rank has written no figures", path) from None
    except OSError as error:
        raise WorldsizeError(f"cannot be read: {error.strerror or error}", path) from None
    except PARSE_ERRORS as error:
        raise WorldsizeError(f"is no report of an all-reduce: {error!s:.200}", path) from None


def parse_report(value: Any) -> Report:
    """ValueError and the like for what is none."""
    report = check_fields(tuple_of(Report, value))
    if not report.rows or report.ranks < 1:
        raise ValueError("it has no rows")
    for row in report.rows:
        times = (row.seconds, row.out_seconds)
        if row.size < 1 or row.wrong < 0 or any(time is not None and time <= 0 for time in times):
            raise ValueError(f"{row.size} bytes: a figure is below 0")
    return report
