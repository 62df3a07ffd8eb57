"""Make the evidence of README's table: `python -m scripts.evidence OUTCOMES | table [--check]`.

OUTCOMES         write docs/evidence/tests-DATE.json and its page from the outcomes that a run of the tests has written
                 (WORLDSIZE_TEST_OUTCOMES), and the table (`make evidence` does all of it)
table            write the table
table --check    exit with 1 if it is not that of the reports
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path

from scripts.evidence import report, table


def main(words: Sequence[str]) -> int:
    if len(words) == 1 and words[0] != "table" and not words[0].startswith("-"):
        outcomes = [json.loads(line) for line in Path(words[0]).read_text(encoding="utf-8").splitlines()]
        today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
        path = report.write_report(report.make_report(outcomes, today, report.machine()))
        print("==> %s" % path.relative_to(report.ROOT))
    elif words[:1] != ["table"]:
        print(__doc__, file=sys.stderr)
        return 2
    page = table.PAGE.read_text(encoding="utf-8")
    made = table.with_table(page, table.read_reports(table.EVIDENCE))
    if "--check" in words and made != page:
        print("README.md's table is not that of docs/evidence: python -m scripts.evidence table")
        return 1
    table.PAGE.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
