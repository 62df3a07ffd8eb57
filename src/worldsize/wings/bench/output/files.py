"""The files that a benchmark leaves beside its `result.json`: CSV, pictures, the page."""

from __future__ import annotations

import os

from worldsize.cli.output import report_message
from worldsize.common.atomic_files import storage_error, try_unlink, write_bytes
from worldsize.common.named_tuple import Any
from worldsize.errors import ConfigError, UsageError
from worldsize.service.providers import find_provider
from worldsize.wings.bench.output.csv_file import csv_text
from worldsize.wings.bench.output.derived import charts_of
from worldsize.wings.bench.output.page import page_bytes
from worldsize.wings.bench.result import BenchResult

RESULT, CSV, SVG, PNG, PAGE = "result.json", "result.csv", "scaling.svg", "scaling.png", "report.html"


def write_files(result: BenchResult, directory: str, against: BenchResult | None = None) -> list[str]:
    """The paths of the files, each replaced as a whole. Without matplotlib there is no picture, and a notice says so;
    a picture of an earlier result does not stay. UsageError where files of such names stand without a `result.json`,
    StorageError where one cannot be written."""
    _refuse_foreign_files(directory)
    pictures = find_provider("pictures")
    drawn = _draw(result, pictures) if pictures is not None else {}
    files = {CSV: csv_text(result).encode(), **drawn}
    if pictures is not None:
        files[PAGE] = page_bytes(result, drawn.get(SVG), pictures, against)
    for name in (SVG, PNG, PAGE):
        if name not in files:
            try_unlink(os.path.join(directory, name))
    return [_write(os.path.join(directory, name), data) for name, data in files.items()]


def _refuse_foreign_files(directory: str) -> None:
    names = [name for name in (CSV, SVG, PNG, PAGE) if os.path.lexists(os.path.join(directory, name))]
    if names and not os.path.lexists(os.path.join(directory, RESULT)):
        hint = "write into another directory: --to DIR"
        raise UsageError(f"{names[0]} stands there, and no {RESULT}: it is of no benchmark", directory, hint)


def _draw(result: BenchResult, pictures: Any) -> dict[str, bytes]:
    """The picture in both formats; none where nothing was measured, or where matplotlib is missing."""
    charts = charts_of(result, pictures)
    if not charts:
        return {}
    try:
        return {name: pictures.draw_charts(charts, name.rpartition(".")[2]) for name in (SVG, PNG)}
    except ConfigError as error:
        hint = f": {error.hint}" if error.hint else ""
        report_message(f"notice: no picture: {error.what}{hint}")
        return {}


def _write(path: str, data: bytes) -> str:
    try:
        write_bytes(path, data)
    except OSError as error:
        raise storage_error(error, path) from None
    return path
