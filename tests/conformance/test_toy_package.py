"""A compute in a package of its own, which worldsize does not know, passes the suite as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from driver import SOURCE
from other_packages import install_project

TOY = Path(__file__).resolve().parents[2] / "examples" / "toy-scheduler"
FIRST = "comes_through and SIGNAL or test_cancel_while_it_runs or test_observing_many_at_once"
CAPABILITIES = ("exec",)


def suite(target: Path, *words: str) -> str:
    """What pytest says of the toy's own tests, by its own configuration, without plugins that worldsize's tests need;
    `target` is where it is installed."""
    install_project(TOY, target / "site")
    searched = os.pathsep.join((SOURCE, str(target / "site")))
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environ["PATH"] = os.pathsep.join((str(target / "site" / "bin"), environ["PATH"]))
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-rs",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:timeout",
    ]
    argv += ["--basetemp", str(target / "tmp"), *words, str(TOY / "tests")]
    done = subprocess.run(argv, cwd=target, env={**environ, "PYTHONPATH": searched}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_toy_of_another_package_passes_the_first_of_the_suite(tmp_path: Path) -> None:
    assert "3 passed" in suite(tmp_path, "-k", FIRST)


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_it_passes_all_and_what_is_skipped_is_what_it_does_not_claim(tmp_path: Path) -> None:
    said = suite(tmp_path)
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None and int(passed[1]) > 50, said
    reasons = {line.rpartition(": ")[2] for line in said.splitlines() if line.startswith("SKIPPED")}
    assert all("has no capability" in reason for reason in reasons), reasons
    assert {name for reason in reasons for name in CAPABILITIES if name in reason} == set(CAPABILITIES)
