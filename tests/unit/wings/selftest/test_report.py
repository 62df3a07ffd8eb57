"""The report of a self-test: counts, order, and that it is not written when it would tell something."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from worldsize.errors import StorageError
from worldsize.wings.selftest.redact import Known
from worldsize.wings.selftest.report import Verdict, as_markdown, leaks_of, make_report, write_report

KNOWN = Known(users=("jdoe",), hosts=("gpu-a017",), home=("/home/jdoe",))
MORE = {"date": "2026-11-27", "seconds": 61, "nodes": 2, "note": "", "interrupted": False, "left_behind": []}
COMPUTE = {"name": "lab", "type": "slurm", "simulated": False}
RESULTS = [
    Verdict("test_a", "passed", 2.0),
    Verdict("test_b[x|y]", "failed", 3.0, "lifecycle.py:3: gpu-a017 lacks /home/jdoe/x"),
    Verdict("test_c", "skipped", 0.0, "lab has no capability exec"),
    Verdict("test_d", "not run", 0.0, "time ran out"),
]


def make(known: Known = KNOWN, **more: Any) -> dict[str, Any]:
    versions = {"worldsize": "1.0", "python": "3.12.1", "mpi": "", "scheduler": "slurm 24.11 on gpu-a017"}
    return make_report(COMPUTE, versions, RESULTS, known, **{**MORE, **more})


def test_what_it_says_is_redacted_and_counted() -> None:
    report = make(note="by jdoe")
    assert report["counts"] == {"passed": 1, "failed": 1, "skipped": 1, "not run": 1}
    assert [each["outcome"] for each in report["tests"]] == ["failed", "not run", "skipped", "passed"]
    assert report["tests"][0]["reason"] == "lifecycle.py:3: node1 lacks $HOME/x"
    assert report["versions"]["scheduler"] == "slurm 24.11 on node1" and "mpi" not in report["versions"]
    assert report["note"] == "by USER" and leaks_of(report, KNOWN) == []


def test_the_page_for_people() -> None:
    text = as_markdown(make(left_behind=["jobs in the queue: 1"]))
    assert text.startswith("# Self-test of lab (slurm, real), 2026-11-27\n")
    assert (
        "1 passed, 1 failed, 1 skipped, 1 not run, in 61 s on at most 2 nodes. Left behind: jobs in the queue: 1."
        in text
    )
    assert "| `test_b[x\\|y]` | lifecycle.py:3: node1 lacks $HOME/x |" in text


def test_it_is_written_as_two_files(tmp_path: Path) -> None:
    paths = write_report(make(), KNOWN, str(tmp_path))
    assert [os.path.basename(path) for path in paths] == ["selftest-lab-2026-11-27.json", "selftest-lab-2026-11-27.md"]
    assert json.loads(Path(paths[0]).read_text()) == make()


def test_nothing_is_written_where_a_secret_is_left(tmp_path: Path) -> None:
    report = make()
    report["tests"][0]["reason"] = "gpu-a017 at 10.1.2.3"
    with pytest.raises(StorageError, match="it would disclose: address, host"):
        write_report(report, KNOWN, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_is_no_file_name_leads_nowhere_else(tmp_path: Path) -> None:
    report = make()
    report["compute"]["name"] = "../../etc/x y"
    (path, _) = write_report(report, Known(), str(tmp_path))
    assert os.path.dirname(path) == str(tmp_path) and os.path.basename(path).startswith("selftest-------etc-x-y")


def test_a_link_of_the_reports_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    (tmp_path / "selftest-lab-2026-11-27.json").symlink_to("mine")
    with pytest.raises(StorageError, match="cannot write the report"):
        write_report(make(), KNOWN, str(tmp_path))
    assert (tmp_path / "mine").read_text() == "x"


def test_a_disk_that_says_no_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot write the report"):
        write_report(make(), KNOWN, str(tmp_path / "missing"))
