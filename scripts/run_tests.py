"""Run every test: those that may share the machine, two at a time; those on Slurm; those that measure, one by one.

On Slurm tests mostly wait: three processes, each with a cluster of its own, take files in turn, the longest first.
Further arguments go to pytest. Ends with one closing line for all parts, which is also written to the file that
WORLDSIZE_TEST_SUMMARY names. Exit code: that of the first part that failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence

NOTHING_COLLECTED = 5
LONGEST = "tests/slurm/test_random_faults.py"
PARTS = (
    ("-n", "2", "--dist", "worksteal", "-m", "not serial and not slurm"),
    ("-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "-m", "slurm", LONGEST, "tests"),
    ("-m", "serial and not slurm"),
)


def run_part(arguments: Sequence[str], report: str) -> int:
    """pytest's exit code."""
    command = [sys.executable, "-m", "pytest", "-q", "--junit-xml", report, *arguments, *sys.argv[1:]]
    return subprocess.call(command)


def counts(report: str) -> Counter[str]:
    """How many tests passed, failed, …"""
    found: Counter[str] = Counter()
    if os.path.exists(report):
        for suite in ElementTree.parse(report).getroot().iter("testsuite"):
            failed, errors, skipped = (int(suite.get(key, "0")) for key in ("failures", "errors", "skipped"))
            found["passed"] += int(suite.get("tests", "0")) - failed - errors - skipped
            found.update(failed=failed, errors=errors, skipped=skipped)
    return found


def main() -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="worldsize-tests-") as folder:
        reports = [os.path.join(folder, "%d.xml" % number) for number in range(len(PARTS))]
        codes = [run_part(arguments, report) for arguments, report in zip(PARTS, reports, strict=True)]
        totals: Counter[str] = sum(map(counts, reports), Counter())
    words = ["%d %s" % (totals[key], key) for key in ("failed", "errors", "passed", "skipped") if totals[key]]
    line = "==== %s in %.2fs ====" % (", ".join(words) or "no tests ran", time.monotonic() - began)
    print(line, flush=True)
    summary = os.environ.get("WORLDSIZE_TEST_SUMMARY")
    if summary:
        with open(summary, "w", encoding="utf-8") as file:
            file.write(line + "\n")
    failed = [code for code in codes if code not in (0, NOTHING_COLLECTED)]
    return failed[0] if failed else 0 if totals["passed"] else NOTHING_COLLECTED


if __name__ == "__main__":
    sys.exit(main())
