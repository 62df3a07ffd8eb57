"""`.ci/run`, with a `make` that only notes what it is asked: both commands run, both closing lines come last."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MAKE = """#!/bin/sh
echo "asked: $* CI=$CI"
[ "$1" != test ] || { echo "==== 7 passed ====" >> "$WORLDSIZE_TEST_SUMMARY"; exit $TEST_CODE; }
echo "==== changed: 9 passed ====" >> "$WORLDSIZE_TEST_SUMMARY"
exit $CHANGED_CODE
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_bytes((ROOT / ".ci" / "run").read_bytes())
    (tmp_path / "bin").mkdir()
    make = tmp_path / "bin" / "make"
    make.write_text(MAKE)
    make.chmod(0o755)
    return tmp_path


def run(checkout: Path, test: int = 0, changed: int = 0) -> tuple[int, list[str]]:
    path = "%s:%s" % (checkout / "bin", os.environ["PATH"])
    environ = {"PATH": path, "TEST_CODE": str(test), "CHANGED_CODE": str(changed)}
    done = subprocess.run(["sh", ".ci/run"], cwd=checkout, env=environ, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.parametrize(("test", "changed", "code"), [(0, 0, 0), (2, 0, 2), (0, 2, 1), (2, 2, 1)])
def test_both_run_and_either_can_fail(checkout: Path, test: int, changed: int, code: int) -> None:
    (checkout / ".ci" / "base").write_text("abc123\n")
    found, lines = run(checkout, test, changed)
    assert found == code
    assert lines[0] == "asked: test CI=true"
    assert lines[1].startswith("asked: test-changed BASE=abc123 TEST_ARGS=--rest --minutes ")
    assert lines[2:] == ["==== 7 passed ====", "==== changed: 9 passed ===="]


def test_without_a_base_only_the_tests_run(checkout: Path) -> None:
    assert run(checkout) == (0, ["asked: test CI=true", "==== 7 passed ===="])


def test_it_can_be_executed_and_its_base_is_a_commit() -> None:
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    base = (ROOT / ".ci" / "base").read_text().strip()
    assert len(base) == 40 and set(base) <= set("0123456789abcdef")
