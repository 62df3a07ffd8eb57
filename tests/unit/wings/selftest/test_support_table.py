"""README's table of evidence is that of the reports in docs/evidence/, none of which tells where it was made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from scripts import support_table

from worldsize.wings.selftest.redact import Known
from worldsize.wings.selftest.report import Verdict, as_markdown, leaks_of, make_report

REPORTS = sorted(support_table.EVIDENCE.glob("*.json"))


def write(folder: Path, name: str, date: str, passed: int, **compute: object) -> None:
    results = [Verdict("test_%d" % number, "passed", 1.0) for number in range(passed)]
    told = {"name": name, "type": "slurm", "simulated": False, **compute}
    versions = {"worldsize": "1.0", "python": "3.12.1", "scheduler": "slurm 24.11"}
    more = {"date": date, "seconds": 3, "nodes": 2, "note": "", "interrupted": False, "left_behind": []}
    report = make_report(told, versions, results, Known(), **more)
    (folder / ("selftest-%s-%s.json" % (name, date))).write_text(json.dumps(report))


def test_the_readme_is_up_to_date() -> None:
    page = support_table.PAGE.read_text(encoding="utf-8")
    assert page == support_table.with_table(page, support_table.read_reports(support_table.EVIDENCE)), (
        "python scripts/support_table.py"
    )


def test_there_is_evidence_for_each_type_that_runs() -> None:
    types = {report["compute"]["type"] for _, report in support_table.read_reports(support_table.EVIDENCE)}
    assert types == {"local", "slurm", "hpcpack"}


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_report_tells_nothing_of_its_place_and_has_its_page(path: Path) -> None:
    report = json.loads(path.read_text(encoding="utf-8"))
    assert leaks_of(report, Known()) == [] and report["left_behind"] == []
    assert sum(report["counts"].values()) == len(report["tests"])
    assert path.with_suffix(".md").read_text(encoding="utf-8") == as_markdown(report)


def test_the_latest_of_each_compute_counts(tmp_path: Path) -> None:
    write(tmp_path, "lab", "2026-01-02", 3)
    write(tmp_path, "lab", "2026-03-01", 5)
    write(tmp_path, "head", "2026-02-01", 1, type="hpcpack", simulated=True)
    page = "before\n" + support_table.BEGIN + "old\n" + support_table.END + "after\n"
    made = support_table.with_table(page, support_table.read_reports(tmp_path))
    rows = made.splitlines()[4:-2]
    assert rows[0].startswith(
        "| `hpcpack` (head) | simulated | slurm 24.11 | 1.0, 3.12.1 | 1 | 0 | 0 | 0 | [2026-02-01]("
    )
    assert rows[1].startswith("| `slurm` (lab) | real |") and "| 5 | 0 | 0 | 0 |" in rows[1] and len(rows) == 2
    assert support_table.with_table(made, support_table.read_reports(tmp_path)) == made


def test_what_is_no_report_and_a_page_without_marks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no marks"):
        support_table.with_table("nothing", [])
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ValueError, match=r"x\.json is no report"):
        support_table.read_reports(tmp_path)
