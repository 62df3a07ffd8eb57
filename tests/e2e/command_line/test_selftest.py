"""`worldsize selftest` on virtual nodes: a few tests of the suite, its report, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from driver import Cli, heard, wait_for

SOME = "test_the_exit_code_comes_through or test_every_node or test_lines_are_folded"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(str(tmp_path))


def report_of(cli: Cli) -> dict[str, Any]:
    (name,) = [name for name in os.listdir(cli.project) if name.endswith(".json")]
    report: dict[str, Any] = json.loads(cli.read_project(name))
    assert os.path.exists(os.path.join(cli.project, name.removesuffix("json") + "md"))
    return report


def nothing_is_left(cli: Cli) -> bool:
    return os.listdir(cli.home) == []


def test_it_passes_and_says_so(cli: Cli) -> None:
    result = cli("selftest", "-k", SOME, "--note", "by a test in " + cli.root, timeout=100)
    assert result.code == 0, result
    assert result.lines[0].startswith("5 passed, 0 failed, 1 skipped, 0 not run in "), result
    assert result.lines[1] == "left behind: nothing" and nothing_is_left(cli)
    assert "passed  test_the_exit_code_comes_through[true-0-None]" in result.err
    report = report_of(cli)
    assert report["compute"] == {"name": "local", "type": "local", "simulated": False}
    assert {each["reason"] for each in report["tests"]} == {"", "it needs 3 nodes, and may have 2"}
    assert report["note"] == "by a test in $HOME" and report["versions"]["worldsize"]


def test_a_failure_is_told_with_its_reason(cli: Cli) -> None:
    cli.write("worldsize.toml", '[compute.local]\nsetup = ["exit 9"]\n')
    result = cli("selftest", "-k", "test_a_job_without_code", "-o", "json", timeout=100)
    assert result.code == 1 and nothing_is_left(cli), result
    report = json.loads(result.out)
    assert report["counts"]["failed"] == 1 and report == report_of(cli)
    (test,) = report["tests"]
    assert test["reason"].startswith("driver.py:") and "FAILED" in test["reason"] and cli.root not in result.out


def test_ctrl_c_ends_what_was_started(cli: Cli) -> None:
    process = cli.start("selftest", "-k", "test_a_rank_that_ends_early or test_several_runs or test_what_failed")
    heard(process.stderr, "conformance suite")
    wait_for(lambda: runs_of(cli), 60)
    process.send_signal(signal.SIGINT)
    heard(process.stderr, "stopping what was started")
    process.send_signal(signal.SIGINT)  # changes nothing
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, (out, err)
    assert b"left behind: nothing" in out and nothing_is_left(cli)
    assert any(each["reason"].startswith("interrupted") for each in report_of(cli)["tests"])


def runs_of(cli: Cli) -> list[str]:
    """The runs of the tests that run now."""
    return [str(path) for path in Path(cli.home).glob("selftest-*/*/home/runs/2*")]


def test_what_has_not_begun_in_time_is_not_run(cli: Cli) -> None:
    result = cli("selftest", "-k", "test_the_time_limit or test_grace", "--minutes", "0.001", timeout=100)
    assert result.code == 0, result
    assert result.lines[0].startswith("0 passed, 0 failed, 0 skipped, 2 not run in ")
    assert {each["reason"] for each in report_of(cli)["tests"]} == {"time ran out"}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-k", "no_such_test"], "no test has such a name: no_such_test"),
        (["--compute", "nowhere"], "there is no compute 'nowhere'"),
        (["--nodes", "0"], "--nodes: 0 is too few"),
        (["--to", "no/such/place"], "--to: no/such/place is not a directory"),
    ],
    ids=["keyword", "compute", "nodes", "to"],
)
def test_mistakes_are_sentences(cli: Cli, words: list[str], says: str) -> None:
    result = cli("selftest", *words)
    assert (result.code, result.out) == (2, "") and says in result.err, result
    assert not os.path.exists(cli.home) or nothing_is_left(cli)
