"""Run every test: first those that may share the machine, two at a time, then those that measure, one by one.

Further arguments go to pytest. Ends with one closing line for both halves, which is also written to the file that
WORLDSIZE_TEST_SUMMARY names. Exit code: that of the first half that failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter

NOTHING_COLLECTED = 5
HALVES = (["-n", "2", "-m", "not serial"], ["-m", "serial"])


def run_half(arguments: list[str], report: str) -> tuple[int, Counter[str]]:
    """pytest's exit code and how many tests passed, failed, …; a half without tests is not a failure."""
    command = [sys.executable, "-m", "pytest", "-q", "--junit-xml", report, *arguments, *sys.argv[1:]]
    code = subprocess.call(command)
    counts: Counter[str] = Counter()
    if os.path.exists(report):
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            failed, errors, skipped = (int(suite.get(key, "0")) for key in ("failures", "errors", "skipped"))
            counts["passed"] += int(suite.get("tests", "0")) - failed - errors - skipped
            counts.update(failed=failed, errors=errors, skipped=skipped)
    return (0 if code == NOTHING_COLLECTED else code), counts


def main() -> int:
    began = time.monotonic()
    totals: Counter[str] = Counter()
    first_failure = 0
    with tempfile.TemporaryDirectory(prefix="worldsize-tests-") as folder:
        for number, arguments in enumerate(HALVES):
            code, counts = run_half(arguments, os.path.join(folder, "%d.xml" % number))
            totals.update(counts)
            first_failure = first_failure or code
    words = ["%d %s" % (totals[key], key) for key in ("failed", "errors", "passed", "skipped") if totals[key]]
    line = "==== %s in %.2fs ====" % (", ".join(words) or "no tests ran", time.monotonic() - began)
    print(line, flush=True)
    summary = os.environ.get("WORLDSIZE_TEST_SUMMARY")
    if summary:
        with open(summary, "w", encoding="utf-8") as file:
            file.write(line + "\n")
    return first_failure or (0 if totals["passed"] else NOTHING_COLLECTED)


if __name__ == "__main__":
    sys.exit(main())
