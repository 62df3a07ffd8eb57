"""README's table of what is supported is that of the reports in docs/evidence/; none tells where it was made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from scripts.evidence import report, table
from scripts.evidence.rows import NOT_TESTED, REAL, ROWS, Row

from worldsize.wings.selftest.redact import Known
from worldsize.wings.selftest.report import Verdict, as_markdown, leaks_of, make_report

REPORTS = sorted(table.EVIDENCE.glob("*.json"))
ROOT = Path(__file__).resolve().parents[3]


def write_selftest(folder: Path, name: str, date: str, passed: int, **compute: object) -> None:
    results = [Verdict("test_%d" % number, "passed", 1.0) for number in range(passed)]
    told = {"name": name, "type": "slurm", "simulated": False, **compute}
    versions = {"worldsize": "1.0", "python": "3.12.1", "scheduler": "slurm 24.11"}
    more: dict[str, Any] = {"seconds": 3, "nodes": 2, "note": "", "interrupted": False, "left_behind": []}
    made = make_report(told, versions, results, Known(), date=date, **more)
    (folder / ("selftest-%s-%s.json" % (name, date))).write_text(json.dumps(made))


def test_the_readme_is_up_to_date() -> None:
    page = table.PAGE.read_text(encoding="utf-8")
    assert page == table.with_table(page, table.read_reports(table.EVIDENCE)), "python -m scripts.evidence table"


def test_there_is_evidence_for_each_type_that_runs() -> None:
    reports = [each for _, each in table.read_reports(table.EVIDENCE) if "selftest" in each]
    assert {each["compute"]["type"] for each in reports} == {"local", "slurm", "hpcpack"}


def test_each_row_names_tests_that_exist_or_says_that_there_are_none() -> None:
    for row in ROWS:
        assert not row.report or (table.EVIDENCE / (row.report + ".md")).exists()
        assert bool(row.tests or row.selftest or row.report) == (row.how != NOT_TESTED), row.id
        for begin in row.tests:
            folder, _, name = begin.rpartition("/")
            assert any(path.name.startswith(name) for path in (ROOT / folder).iterdir()), begin
    assert len({row.id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_report_tells_nothing_of_its_place_and_has_its_page(path: Path) -> None:
    told = json.loads(path.read_text(encoding="utf-8"))
    made = path.with_suffix(".md").read_text(encoding="utf-8")
    if "tests" in told and "selftest" not in told:
        assert made == report.page(told) and "/root" not in made and "/home" not in made
        return
    assert leaks_of(told, Known()) == [] and told["left_behind"] == []
    assert sum(told["counts"].values()) == len(told["tests"])
    assert made == as_markdown(told)


def test_the_newest_report_of_a_row_counts(tmp_path: Path) -> None:
    write_selftest(tmp_path, "lab", "2026-01-02", 3)
    write_selftest(tmp_path, "lab", "2026-03-01", 5)
    rows = [Row("slurm", "Slurm", REAL, selftest="slurm"), Row("jax", "JAX", REAL, tests=("tests/x",))]
    page = "before\n" + table.BEGIN + "old\n" + table.END + "after\n"
    made = table.with_table(page, table.read_reports(tmp_path), rows)
    link = "[2026-03-01](docs/evidence/selftest-lab-2026-03-01.md)"
    assert made.splitlines()[4:-2] == [
        "| Slurm | real |  | slurm 24.11, Python 3.12.1 | 5 | 0 | 0 | %s |" % link,
        "| JAX | real |  |  |  |  |  | no report |",
    ]
    assert table.with_table(made, table.read_reports(tmp_path), rows) == made


def test_a_report_counts_the_tests_of_each_row(tmp_path: Path) -> None:
    outcomes = [
        {"id": "tests/frameworks/test_jax.py::test_a", "outcome": "failed"},
        {"id": "tests/frameworks/test_jax.py::test_a", "outcome": "passed"},
        {"id": "tests/frameworks/test_jax.py::test_b", "outcome": "unstable"},
        {"id": "tests/frameworks/test_jax.py::test_c", "outcome": "error"},
        {"id": "tests/unit/test_x.py::test_d", "outcome": "passed"},
    ]
    made = report.make_report(outcomes, "2026-05-01", {"worldsize": "1.0"})
    assert list(made["rows"]) == ["jax"]
    assert {word: made["rows"]["jax"][word] for word in report.OUTCOMES} == {"passed": 2, "failed": 1, "skipped": 0}
    path = report.write_report(made, tmp_path)
    assert json.loads(path.read_text()) == made
    assert "| jax | `tests/frameworks/test_jax.py` |" in path.with_suffix(".md").read_text()


def test_what_is_no_report_and_a_page_without_marks_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no marks"):
        table.with_table("nothing", [])
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ValueError, match=r"x\.json is no report"):
        table.read_reports(tmp_path)
