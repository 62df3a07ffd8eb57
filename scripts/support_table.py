"""README's table of where worldsize was proved, made from the reports in docs/evidence/.

    python scripts/support_table.py            write the table
    python scripts/support_table.py --check    exit with 1 where it is not that of the reports

Each report is what `worldsize selftest` wrote; of each compute's name the latest counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "README.md"
EVIDENCE = ROOT / "docs" / "evidence"
BEGIN, END = "<!-- evidence -->\n", "<!-- end of evidence -->\n"
HEAD = (
    "| compute | how | scheduler | worldsize, Python | passed | failed | skipped | not run | report |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
)
REAL, SIMULATED = "real", "simulated"


def read_reports(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """(the name of the file without its ending, the report), the latest of each compute, by name. ValueError for a file
    that is no report."""
    latest: dict[str, tuple[str, dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        report = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(report, dict) or report.get("selftest") != 1:
            raise ValueError("%s is no report of a self-test" % path.name)
        name = report["compute"]["name"]
        if name not in latest or latest[name][1]["date"] <= report["date"]:
            latest[name] = (path.stem, report)
    return [latest[name] for name in sorted(latest)]


def row(stem: str, report: Mapping[str, Any]) -> str:
    compute, versions, counts = report["compute"], report["versions"], report["counts"]
    cells = [
        "`%s`" % compute["type"] if compute["name"] == compute["type"] else "`%(type)s` (%(name)s)" % compute,
        SIMULATED if compute["simulated"] else REAL,
        versions.get("scheduler", ""),
        "%s, %s" % (versions["worldsize"], versions["python"]),
        *(str(counts[outcome]) for outcome in ("passed", "failed", "skipped", "not run")),
        "[%s](docs/evidence/%s.md)" % (report["date"], stem),
    ]
    return "| %s |\n" % " | ".join(str(cell).replace("|", "\\|") for cell in cells)


def with_table(page: str, reports: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """The page with the rows of these reports. ValueError for a page without the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError("the page has no marks for the table of evidence")
    return before + begin + HEAD + "".join(row(*each) for each in reports) + end + after


def main(words: Sequence[str]) -> int:
    page = PAGE.read_text(encoding="utf-8")
    made = with_table(page, read_reports(EVIDENCE))
    if made == page:
        return 0
    if "--check" in words:
        print("README.md's table is not that of docs/evidence: python scripts/support_table.py")
        return 1
    PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
