"""The files that a benchmark writes next to its `result.json`: CSV, pictures, the page."""

from __future__ import annotations

import os

from worldsize.cli.output import report_message
from worldsize.common.atomic_files import storage_error, try_unlink, write_bytes
from worldsize.common.named_tuple import Any
from worldsize.errors import ConfigError
from worldsize.service.providers import find_provider
from worldsize.wings.bench.output.csv_file import csv_text
from worldsize.wings.bench.output.derived import charts_of
from worldsize.wings.bench.output.page import page_bytes
from worldsize.wings.bench.result import BenchResult

CSV, SVG, PNG, PAGE = "result.csv", "scaling.svg", "scaling.png", "report.html"


def write_files(result: BenchResult, directory: str, against: BenchResult | None = None) -> list[str]:
    """Write the CSV file, the pictures and the page of a benchmark's `result` into `directory`, and return their paths.
    Each file is replaced as a whole. Without matplotlib there is no picture, which a notice reports; a picture of an
    earlier result is removed. Raise StorageError if a file cannot be written."""
    pictures = find_provider("pictures")
    drawn = _draw(result, pictures) if pictures is not None else {}
    files = {CSV: csv_text(result).encode(), **drawn}
    if pictures is not None:
        files[PAGE] = page_bytes(result, drawn.get(SVG), pictures, against)
    for name in (SVG, PNG, PAGE):
        if name not in files:
            try_unlink(os.path.join(directory, name))
    return [_write(os.path.join(directory, name), data) for name, data in files.items()]


def _draw(result: BenchResult, pictures: Any) -> dict[str, bytes]:
    """Return the picture of a benchmark's charts in both formats, SVG and PNG, as contents by file name; empty if
    nothing was measured, or if matplotlib is missing."""
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
