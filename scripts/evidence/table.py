"""README's table of what is supported and where it was proved, made from the rows and the reports in docs/evidence/.

A row shows the newest report that has it: one of `worldsize selftest`, or one of the tests. Without any, it states so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scripts.evidence.rows import NOT_TESTED, ROWS, Row

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "README.md"
EVIDENCE = ROOT / "docs" / "evidence"
BEGIN, END = "<!-- evidence -->\n", "<!-- end of evidence -->\n"
HEAD = (
    "| what | how | limits | versions | passed | failed | skipped | report |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |\n"
)
NO_REPORT = "no report"


def read_reports(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """(the name of the file without its ending, the report), the oldest first. ValueError for a file that is no
    report."""
    found = []
    for path in sorted(folder.glob("*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(report, dict) or (report.get("selftest") != 1 and report.get("tests") != 1):
            raise ValueError("%s is no report of a self-test or of tests" % path.name)
        found.append((path.stem, report))
    return sorted(found, key=lambda each: (each[1]["date"], each[0]))


def cells_of_evidence(row: Row, reports: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Versions, counts and the link of a row: of the newest report that has it."""
    if row.report:
        return ["", "", "", "", "[%s](docs/evidence/%s.md)" % (row.report[-len("2026-01-01") :], row.report)]
    for stem, report in reversed(reports):
        found = _selftest_cells(row, report) if "selftest" in report else _tests_cells(row, report)
        if found:
            return [*found, "[%s](docs/evidence/%s.md)" % (report["date"], stem)]
    return ["", "", "", "", NO_REPORT]


def _selftest_cells(row: Row, report: Mapping[str, Any]) -> list[str]:
    if not row.selftest or report["compute"]["type"] != row.selftest:
        return []
    versions, counts = report["versions"], report["counts"]
    said = [versions.get("scheduler", ""), "Python %s" % versions["python"]]
    failed = counts["failed"] + counts["not run"]
    return [", ".join(filter(None, said)), str(counts["passed"]), str(failed), str(counts["skipped"])]


def _tests_cells(row: Row, report: Mapping[str, Any]) -> list[str]:
    told = report["rows"].get(row.id)
    if not row.tests or told is None:
        return []
    versions = ", ".join("%s %s" % each for each in told["versions"].items())
    return [versions, *(str(told[word]) for word in ("passed", "failed", "skipped"))]


def with_table(page: str, reports: Sequence[tuple[str, Mapping[str, Any]]], rows: Sequence[Row] = ROWS) -> str:
    """The page with the rows of these reports. ValueError for a page without the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no marks for the table of evidence")
    lines = []
    for row in rows:
        evidence = ["", "", "", "", NO_REPORT] if row.how == NOT_TESTED else cells_of_evidence(row, reports)
        cells = [row.what, row.how, row.limits, *evidence]
        lines.append("| %s |\n" % " | ".join(cell.replace("|", "\\|") for cell in cells))
    return before + begin + HEAD + "".join(lines) + end + after
