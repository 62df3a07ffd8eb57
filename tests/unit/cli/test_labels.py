"""Experiments, descriptions and tags: shown by status and list, and what list finds runs by."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from worldsize.cli.main import main
from worldsize.cli.runs.run_filter import complete_experiments, complete_tags
from worldsize.common.atomic_files import write_json, write_once, write_text
from worldsize.plan.array import Array, array_file
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.state.array import array_result
from worldsize.state.records import Status
from worldsize.state.summary import known_labels, run_summary
from worldsize.store.runs import create_run

ENDED = Status("SUCCEEDED", exit_code=0, started=1795257120.0, ended=1795257130.0)


def write_run(home: str, second: int, labels: Any, state: Status = ENDED) -> str:
    paths = create_run(home, now=lambda: 1795257118.0 + second)
    plan = Plan(paths.run_id, "train", "local", 1.0, 0, node_major_layout(1, 1), ("true",), {}, labels=labels)
    write_text(paths.plan, plan.to_json())
    write_json(paths.record, {})
    if state.final:
        write_once(paths.result, {"summary": run_summary(plan, state), "message": "", "failure": None})
    return paths.run_id


def write_array(home: str, labels: dict[str, Any]) -> str:
    paths = create_run(home, now=lambda: 1795257117.0, array=True)
    array = Array(paths.run_id, "several", "local", 1.0, 1, 1, 2, labels=labels)
    for number in range(2):
        element = RunPaths(os.path.join(paths.root, "%s_%d" % (paths.run_id, number)))
        os.mkdir(element.root)
        write_once(
            element.result, {"summary": {**run_summary(plan_of(element), ENDED)}, "message": "", "failure": None}
        )
    write_text(array_file(paths.root), array.to_json())
    write_once(paths.result, array_result(array, [ENDED, ENDED]))
    return paths.run_id


def plan_of(paths: RunPaths) -> Plan:
    plan = Plan(paths.run_id, "several", "local", 1.0, 0, node_major_layout(1, 1), ("true",), {})
    write_text(paths.plan, plan.to_json())
    return plan


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return str(tmp_path / "home")


@pytest.fixture
def names(home: str) -> dict[str, str]:
    """The names of three runs, by their ids."""
    small = {"experiment_name": "digits", "description": "a first try", "tags": {"lr": "0.1", "swept": ""}}
    large = {"experiment_name": "digits", "tags": {"lr": "0.2"}}
    return {
        write_run(home, 0, {}): "plain",
        write_run(home, 1, small): "small",
        write_run(home, 2, large): "large",
        write_array(home, {"experiment_name": "several", "tags": {"lr": "0.1"}}): "array",
    }


def found(capsys: pytest.CaptureFixture[str], names: dict[str, str], *words: str) -> list[str]:
    assert main(["list", "-o", "json", *words]) == 0
    return [names[each["id"]] for each in json.loads(capsys.readouterr().out)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ["large", "small", "plain", "array"]),
        (("--experiment", "digits"), ["large", "small"]),
        (("--experiment", "digit"), []),
        (("--tag", "lr"), ["large", "small", "array"]),
        (("--tag", "lr=0.1"), ["small", "array"]),
        (("--tag", "lr=0.1", "--tag", "swept"), ["small"]),
        (("--tag", "swept="), ["small"]),
        (("--tag", "swept=1"), []),
        (("--experiment", "digits", "--tag", "lr=0.2", "--state", "succeeded"), ["large"]),
        (("--experiment", "digits", "--state", "failed"), []),
        (("-n", "1", "--experiment", "several"), ["array"]),
    ],
)
def test_runs_are_found_by_them(
    words: tuple[str, ...], expected: list[str], names: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert found(capsys, names, *words) == expected


def test_elements_have_those_of_their_array(names: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--elements", "--experiment", "several", "-o", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(names[row["array"]], row["experiment_name"], row["tags"]) for row in rows] == [
        ("array", "several", {"lr": "0.1"})
    ] * 2


def test_json_has_them_always(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(home, 0, {})
    for words in (["list", "-o", "json"], ["status", run, "-o", "json"]):
        assert main(words) == 0
        value = json.loads(capsys.readouterr().out)
        row = value[0] if isinstance(value, list) else value
        assert (row["experiment_name"], row["description"], row["tags"]) == (None, None, {})


def test_columns_are_there_where_a_row_has_something(names: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[-2:] == ["EXPERIMENT", "TAGS"]
    assert rows[1].endswith("digits      lr=0.1, swept")
    assert main(["list", "--state", "succeeded", next(iter(names))]) == 0
    assert "EXPERIMENT" not in capsys.readouterr().out


def test_status_shows_them(names: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    run = next(each for each, name in names.items() if name == "small")
    assert main(["status", run]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:5] == ["experiment: digits", "tags: lr=0.1, swept", "description: a first try"]
    array = next(each for each, name in names.items() if name == "array")
    assert main(["status", array]) == 0
    assert "experiment: several" in capsys.readouterr().out


def test_nothing_found_says_what_was_looked_for(names: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--state", "failed", "--experiment", "x\x1b", "--tag", "a=b"]) == 0
    said = capsys.readouterr()
    assert said.out == "" and said.err == "no run is FAILED, of experiment x\\x1b, tagged a=b\n"


def test_a_tag_without_a_key_is_refused(home: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["list", "--tag", "=3"])
    assert caught.value.code == 2 and "'=3' has no key" in capsys.readouterr().err


def test_completion_offers_those_of_runs_that_have_ended(names: dict[str, str]) -> None:
    assert complete_experiments() == ["digits", "several"]
    assert complete_tags() == ["lr=0.1", "lr=0.2", "swept="]


@pytest.mark.parametrize(
    "labels",
    [None, 3, [], {"tags": 3}, {"tags": {"a": 3}}, {"experiment_name": {}, "description": [1]}, {"other": "x"}],
)
def test_what_a_damaged_plan_says_is_none(labels: Any, home: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert known_labels(labels) == {"experiment_name": None, "description": None, "tags": {}}
    run = write_run(home, 0, labels)
    for words in (["list"], ["status", run]):
        assert main(words) == 0
        assert run in capsys.readouterr().out


def test_a_long_description_is_cut() -> None:
    assert known_labels({"description": "x" * 5000})["description"] == "x" * 1000
