"""`worldsize metrics` of recorded runs: tables, CSV, JSON, and what it says where there is nothing."""

from __future__ import annotations

import csv
import json
import math
import os
import shutil
from argparse import Namespace
from pathlib import Path

import pytest
from in_process import InProcess
from recorded_metrics import log_values, recorded_run, write_lines

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.metrics.command import complete_names


@pytest.fixture
def cli(tmp_path: Path) -> InProcess:
    return InProcess(str(tmp_path))


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """Two ranks that have logged a loss; rank 0 an accuracy, too."""
    paths = recorded_run(tmp_path / "runs", 1, 3)
    log_values(paths, 0, [(k, {"loss": 1.0 / (k + 1)}) for k in range(10)])
    log_values(paths, 0, [(9, {"val/acc": 0.5})])
    log_values(paths, 1, [(k, {"loss": 2.0}) for k in range(10)])
    return paths


def test_a_row_for_each_name(cli: InProcess, run: RunPaths) -> None:
    lines = cli.ok("metrics", run.root).lines
    assert lines[0].split() == ["NAME", "LAST", "STEP", "LOWEST", "HIGHEST", "RANK", "SOURCE", "AGE", "COURSE"]
    assert lines[1].split()[:7] == ["loss", "0.1", "9", "0.1", "1", "0", "log"] and lines[1].endswith("▁")
    assert lines[2].split()[:7] == ["val/acc", "0.5", "9", "0.5", "0.5", "0", "log"]
    assert len(lines) == 3


def test_names_and_ranks_are_chosen(cli: InProcess, run: RunPaths) -> None:
    assert [line.split()[0] for line in cli.ok("metrics", run.root, "--name", "v*", "--name", "x").lines[1:]] == [
        "val/acc"
    ]
    rows = [line.split() for line in cli.ok("metrics", run.root, "--rank", "all", "--name", "loss").lines[1:]]
    assert [(row[1], row[5]) for row in rows] == [("0.1", "0"), ("2", "1")]
    assert [row["rank"] for row in cli.json("metrics", run.root, "--rank", "1")] == [1]
    wrong = cli("metrics", run.root, "--rank", "3")
    assert wrong.code == 2 and "ranks are 0-2" in wrong.err
    silent = cli("metrics", run.root, "--rank", "2")
    assert (silent.code, silent.out) == (0, "") and "rank 2 has logged no values; these have: 0,1" in silent.err


def test_json_has_texts_for_what_is_no_number(cli: InProcess, run: RunPaths) -> None:
    log_values(run, 0, [(10, {"loss": "nan"}), (1, {"odd": "nan"}), (2, {"odd": "-inf"})])
    loss, odd, _ = cli.json("metrics", run.root)
    assert (loss["last"]["value"], loss["lowest"]["value"], loss["lowest"]["step"]) == ("nan", 0.1, 9)
    assert (odd["last"]["value"], odd["lowest"]["value"], odd["points"]) == ("-inf", "-inf", 2)
    assert (loss["first_nan"]["step"], odd["first_nan"]["step"]) == (10, 1)
    assert cli.json("metrics", run.root, "--name", "none") == []
    shown = cli.ok("metrics", run.root, "--name", "loss").lines
    assert shown[-1] == "loss of rank 0 was nan for the first time at step 10"


def test_csv_has_every_value_of_every_rank_and_attempt(cli: InProcess, run: RunPaths) -> None:
    log_values(RunPaths(run.root, 1), 0, [(5, {'"odd", name\n': "inf"}), (None, {"loss": 3})])
    rows = list(csv.DictReader(cli.ok("metrics", run.root, "--csv").out.splitlines(keepends=True)))
    assert len(rows) == 23 and {row["run"] for row in rows} == {os.path.basename(run.root)}
    assert [(row["name"], row["value"], row["step"], row["attempt"]) for row in rows[11:13]] == [
        ('"odd", name\n', "inf", "5", "1"), ("loss", "3.0", "", "1"),
    ]  # fmt: skip
    rows = list(csv.DictReader(cli.ok("metrics", run.root, "--csv", "--rank", "1").out.splitlines()))
    assert len(rows) == 10 and {(row["rank"], row["source"]) for row in rows} == {("1", "log")}


def test_what_a_later_attempt_repeats_is_not_shown_twice(cli: InProcess, run: RunPaths) -> None:
    log_values(RunPaths(run.root, 1), 0, [(4, {"loss": 9.0}), (5, {"loss": 8.0})])
    loss = cli.json("metrics", run.root, "--name", "loss")[0]
    assert (loss["points"], loss["last"]["value"], loss["lowest"]["value"]) == (6, 8.0, 0.25)


def test_runs_beside_each_other(cli: InProcess, run: RunPaths, tmp_path: Path) -> None:
    other = recorded_run(tmp_path / "runs", name="20261127-060001-bbbbbb")
    log_values(other, 0, [(1, {"loss": 5, "only": 1}), (2, {"loss": 7})])
    lines = cli.ok("metrics", run.root, other.root).lines
    assert [line.split() for line in lines] == [
        ["NAME", os.path.basename(run.root), os.path.basename(other.root)],
        ["loss", "0.1", "7"], ["val/acc", "0.5"], ["only", "1"],
    ]  # fmt: skip
    assert cli.ok("metrics", run.root, other.root, "--value", "lowest").lines[1].split() == ["loss", "0.1", "5"]
    rows = cli.ok("metrics", *[run.root, other.root] * 3, "--name", "loss", "--rank", "all").lines
    assert [row.split()[1:] for row in rows[1:3]] == [["0.1", "2"], ["7"]]
    assert "loss (rank 0)  loss (rank 1)" in rows[0]


def test_many_names_of_many_runs(cli: InProcess, run: RunPaths) -> None:
    log_values(run, 0, [(1, {"name %02d" % k: k for k in range(10)})])
    lines = cli.ok("metrics", *[run.root] * 5).lines
    assert len(lines) == 7 and lines[-1] == "… and 4 more names: select with --name"


def test_names_drive_no_terminal(cli: InProcess, run: RunPaths) -> None:
    log_values(run, 0, [(1, {"\x1b[2J\n\u202e" + "x" * 100: 1})])
    shown = cli.ok("metrics", run.root)
    assert "\x1b" not in shown.out and "\\x1b[2J\\n\\u202e" in shown.out and len(shown.lines) == 4
    for words in ([run.root] * 2, [run.root] * 5):
        assert "\x1b" not in cli.ok("metrics", *words).out and "\\x1b" in cli.ok("metrics", *words).out
    none = cli("metrics", run.root, "--name", "\x1b[2J")
    assert none.code == 0 and "\x1b" not in none.err and "there are" in none.err


def test_a_run_without_values_says_what_to_do(cli: InProcess, tmp_path: Path) -> None:
    paths = recorded_run(tmp_path / "runs")
    said = cli("metrics", paths.root)
    assert (said.code, said.out) == (0, "") and "worldsize.log(" in said.err and "--used" not in said.err
    assert cli.json("metrics", paths.root) == []
    assert cli.ok("metrics", paths.root, "--csv").lines == ["run,name,step,time,value,rank,source,attempt,place"]
    write_lines(paths.samples(0), "x\n")
    assert "--used" in cli("metrics", paths.root).err
    used = cli("metrics", paths.root, "--used")
    assert (used.code, used.out) == (0, "") and "nothing sampled" in used.err
    assert cli.json("metrics", paths.root, "--used") == []


def test_the_shell_completes_names(cli: InProcess, run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLDSIZE_HOME", cli.home)
    assert complete_names(Namespace(runs=[run.root])) == ["loss", "val/acc"]
    assert complete_names(Namespace(runs=["none"])) == complete_names(Namespace(runs=[])) == []


def test_what_ranks_have_used(cli: InProcess, run: RunPaths) -> None:
    header = [1, 1000.0, "n1\x1b", 0, 8, 16 << 30, [[0, "GPU-1", "H100", None]], []]
    taken = [1010.0, [[0, 20.0, 3 << 29, None, 1024]], 5_000_000, 0, [[0, 0.61, 7 << 30, None]]]
    begun = [1000.0, [], 0, 0]
    lines = (json.dumps({key: value}) for key, value in (("header", header), ("sample", begun), ("sample", taken)))
    write_lines(run.samples(0), *(line + "\n" for line in lines))
    nodes, gpus, ranks = (part.splitlines() for part in cli.ok("metrics", run.root, "--used").out.split("\n\n"))
    cells = [cell.strip() for cell in nodes[1].split("  ") if cell.strip()]
    assert cells == ["0", "n1\\x1b", "2 of 8", "1.5 GiB of 16 GiB", "500 kB/s", "0 B/s", "10 s"]
    assert gpus[1].split() == ["0", "0", "H100", "61", "%", "7", "GiB", "-"]
    assert ranks[1].split() == ["0", "0", "2", "1.5", "GiB", "-", "1", "KiB"]
    row = cli.json("metrics", run.root, "--used")[0]
    assert (row["run"], row["cpus"], row["gpus"][0]["busy"], row["ranks"][0]["rank"]) == (run.run_id, 2.0, 0.61, 0)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--plot picture.gif", "must end with .png or .svg"),
        ("--csv -o json", "cannot be combined"),
        ("--plot a.png -o json", "cannot be combined"),
        ("--csv --used", "not allowed with"),
        ("--value mean", "invalid choice"),
    ],
)
def test_words_that_are_mistakes(cli: InProcess, run: RunPaths, words: str, says: str) -> None:
    wrong = cli("metrics", run.root, *words.split())
    assert wrong.code == 2 and says in wrong.err and "Traceback" not in wrong.err


def test_a_run_that_was_deleted(cli: InProcess, run: RunPaths) -> None:
    missing = cli("metrics", run.root + "x")
    assert missing.code != 0 and "Traceback" not in missing.err


def test_values_of_a_damaged_run(cli: InProcess, run: RunPaths) -> None:
    Path(run.plan).write_text("{}")
    assert cli.ok("metrics", run.root).lines[1].split()[1] == "0.1"
    assert math.isclose(cli.json("metrics", run.root)[0]["last"]["value"], 0.1)
    assert "Traceback" not in cli("metrics", run.root, "--rank", "0").err


def test_two_directories_of_one_name_are_two_runs(cli: InProcess, run: RunPaths, tmp_path: Path) -> None:
    """A copy of a run beside the run itself."""
    write_lines(run.samples(0), '{"header":[1,1000.0,"n1",0,8,null]}\n', '{"sample":[1010.0,[]]}\n')
    copy = shutil.copytree(run.root, tmp_path / "copies" / run.run_id)
    shown = cli.ok("metrics", run.root, str(copy), "--used").out
    assert shown.count(f"{run.run_id}:") == 2 == len(cli.json("metrics", run.root, str(copy), "--used"))
