"""A result as text for a terminal."""

from __future__ import annotations

from worldsize.cli.table import table
from worldsize.wings.bench.output.derived import answer_of, fact_tables
from worldsize.wings.bench.result import BenchResult, Table


def result_lines(result: BenchResult, against: BenchResult | None = None) -> list[str]:
    """Return the lines that show a benchmark's `result` in a terminal: its tables, those of hardware and software, and
    at the end the sentences, which are the main result.

    Each sentence and each caption is in one line.
    """
    text = answer_of(result, against)
    lines: list[str] = []
    for each in (*text.tables, *fact_tables(result)):
        lines += [*_table_lines(each), ""]
    return [*lines, *map(_in_one_line, text.sentences)]


def _table_lines(shown: Table) -> list[str]:
    headers = [_in_one_line(header) for header in shown.headers]
    lines = table([list(row) for row in shown.rows], headers)
    if not any(headers):
        del lines[0]
    caption = _in_one_line(shown.caption)
    return [caption, *("  " + line for line in lines)] if caption else lines


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
