"""A report of which tests proved which row: `docs/evidence/tests-DATE.json`, and the same as a page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from scripts.evidence.rows import ROWS, Row

ROOT = Path(__file__).resolve().parents[2]
EVIDENCE = ROOT / "docs" / "evidence"
OUTCOMES = ("passed", "failed", "skipped")
_LIST = "import importlib.metadata as m, json, sys; print(json.dumps({n: m.version(n) for n in sys.argv[1:]}))"


def make_report(outcomes: Iterable[Mapping[str, str]], date: str, machine: Mapping[str, str]) -> dict[str, Any]:
    """Return the report of tests whose `outcomes` are {id, outcome}. A test that failed and then passed alone counts as
    passed; an error counts as failed. Of several outcomes of a test the last one counts, so failed tests may be run
    again into the same file."""
    counts = {row.id: Counter[str]() for row in ROWS}
    for name, outcome in {each["id"]: each["outcome"] for each in outcomes}.items():
        word = {"unstable": "passed", "error": "failed"}.get(outcome, outcome)
        for row in ROWS:
            if row.tests and name.startswith(row.tests):
                counts[row.id][word] += 1
    rows = {
        row.id: {**{word: counts[row.id][word] for word in OUTCOMES}, "versions": versions(row)}
        for row in ROWS
        if counts[row.id]
    }
    return {"tests": 1, "date": date, "machine": dict(machine), "rows": rows}


def versions(row: Row, root: Path = ROOT) -> dict[str, str]:
    """Return the versions of the packages and programs that a row shows, by name."""
    found: dict[str, str] = {}
    python = root / row.environment / "bin" / "python"
    if row.packages and python.exists():
        command = [str(python), "-c", _LIST, *row.packages]
        found.update(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    for program in row.programs:
        out = subprocess.run(program.split(), capture_output=True, text=True, check=True).stdout
        first = out.split("\n", 1)[0].split()
        found[" ".join(first[:-1])] = first[-1]
    return found


def page(report: Mapping[str, Any]) -> str:
    """Return the report as a page of the documentation."""
    lines = ["# Tests of each row, %s" % report["date"], ""]
    lines += ["These are the results of the tests that each row of the table in the README is based on.", ""]
    lines += ["| | |", "| --- | --- |", *("| %s | %s |" % each for each in report["machine"].items()), ""]
    lines += ["| row | tests | versions | passed | failed | skipped |", "| --- | --- | --- | --- | --- | --- |"]
    named = {row.id: row for row in ROWS}
    for name, told in report["rows"].items():
        row = named.get(name)
        tests = ", ".join("`%s`" % each for each in row.tests) if row else ""
        said = ", ".join("%s %s" % each for each in told["versions"].items())
        lines.append("| %s | %s | %s | %s |" % (name, tests, said, " | ".join(str(told[word]) for word in OUTCOMES)))
    return "\n".join(lines) + "\n"


def machine() -> dict[str, str]:
    """Return what the report tells about the machine: nothing by which it could be found."""
    release = Path("/etc/os-release").read_text(encoding="utf-8")
    name = next(line.partition("=")[2].strip('"') for line in release.splitlines() if line.startswith("PRETTY_NAME="))
    version = (ROOT / "src/worldsize/version.py").read_text(encoding="utf-8").split('"')[1]
    return {"worldsize": version, "Python": "%d.%d.%d" % sys.version_info[:3], "system": name}


def write_report(report: Mapping[str, Any], folder: Path = EVIDENCE) -> Path:
    """Write the report and its page, and return the report's path."""
    path = folder / ("tests-%s.json" % report["date"])
    path.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    path.with_suffix(".md").write_text(page(report), encoding="utf-8")
    return path
