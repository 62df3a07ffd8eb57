"""`worldsize report`: where the page goes, what it may replace; pages of arrays."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_process import InProcess
from recorded_reports import MADE, ReadPage, record_run, write

from worldsize.plan.run_paths import RunPaths
from worldsize.store.runs import create_run
from worldsize.store.started_from import note_start


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[InProcess]:
    cli = InProcess(str(tmp_path))
    yield cli
    cli.close()


def ended_run(cli: InProcess) -> RunPaths:
    paths = record_run(cli.home)
    write_result(paths, "SUCCEEDED")
    note_start(cli.home, cli.project, paths.run_id)
    return paths


def write_result(paths: RunPaths, state: str) -> None:
    code = 0 if state == "SUCCEEDED" else 3
    reason = None if state == "SUCCEEDED" else "EXIT_CODE"
    row = {"id": paths.run_id, "state": state, "reason": reason, "exit_code": code, "started": MADE, "ended": MADE + 9}
    message = "" if state == "SUCCEEDED" else f"{paths.run_id} fell"
    write(paths.result, {"summary": row, "message": message, "failure": None, "warnings": []})


def test_the_page_is_named_by_the_run_and_replaced(cli: InProcess) -> None:
    paths = ended_run(cli)
    page = os.path.join(cli.project, paths.run_id + ".html")
    for _ in range(2):
        result = cli("report")
        assert result.code == 0 and result.out.startswith(f"{page}: ") and result.out.endswith(" KiB\n"), result
    assert "SUCCEEDED" in ReadPage(Path(page).read_bytes()).texts["run"]
    assert os.stat(page).st_mode & 0o777 == 0o600 and len(os.listdir(cli.project)) == 1


@pytest.mark.parametrize("there", ["text", "other page", "directory", "pipe", "dangling"])
def test_what_is_no_page_is_not_replaced(cli: InProcess, there: str) -> None:
    ended_run(cli)
    path = os.path.join(cli.project, "thesis.html")
    {
        "text": lambda: write(path, "<!doctype html>my own"),
        "other page": lambda: write(path, "<!DOCTYPE html>\n<html><head><title>my own</title>"),
        "directory": lambda: os.mkdir(path),
        "pipe": lambda: os.mkfifo(path),
        "dangling": lambda: os.symlink("nowhere", path),
    }[there]()
    result = cli("report", "--to", "thesis.html")
    assert result.code == 2 and "--force" in result.err and "thesis.html: the file exists" in result.err, result
    forced = cli("report", "--to", "thesis.html", "--force")
    if there == "directory":
        assert forced.code != 0 and "cannot write" in forced.err
    else:
        assert forced.code == 0 and Path(path).read_bytes().startswith(b"<!DOCTYPE html>")


def test_to_stdout(cli: InProcess) -> None:
    ended_run(cli)
    result = cli("report", "--to", "-", "--log-lines", "0")
    assert result.code == 0 and result.out.startswith("<!DOCTYPE html>") and not os.listdir(cli.project)
    assert "hello from rank 1" not in result.out


def test_a_directory_that_cannot_be_written(cli: InProcess) -> None:
    ended_run(cli)
    result = cli("report", "--to", "missing/page.html")
    assert result.code != 0 and "cannot write" in result.err and "missing/page.html" in result.err


def test_there_is_no_such_run(cli: InProcess) -> None:
    assert cli("report", "zzzz").code == 2 or "no run" in cli("report", "zzzz").err
    assert cli("report", "--log-lines", "-4").code == 2


def recorded_array(cli: InProcess, states: list[str], **fields: object) -> RunPaths:
    root = create_run(cli.home)
    array = {"version": 1, "run_id": root.run_id, "name": "sweep", "compute": "local", "created": MADE}
    values = [{"lr": 10.0**-number} for number in range(len(states))]
    size = {"nodes": 1, "ranks": 1, "elements": len(states), "values": values}
    write(os.path.join(root.root, "array.json"), {**array, **size, **fields})
    for number, state in enumerate(states):
        paths = RunPaths(os.path.join(root.root, f"{root.run_id}_{number}"))
        source = record_run(cli.home, 1, 1)
        os.rename(os.path.realpath(source.root), paths.root)
        if os.path.islink(source.root):
            os.unlink(source.root)
        write_result(paths, state)
    write(root.record, {"user": "ada"})
    write(root.result, {"settled": True})
    return root


def test_an_array(cli: InProcess) -> None:
    root = recorded_array(cli, ["SUCCEEDED", "FAILED", "FAILED"])
    result = cli("report", root.run_id, "--to", "-")
    assert result.code == 0, result
    texts = ReadPage(result.out.encode()).texts
    assert "runs|1 SUCCEEDED, 2 FAILED" in texts["array"] and "by|ada" in texts["array"]
    rows = texts["runs"].split("\n")
    assert rows[0].endswith("run|state|reason|exit code|took|lr|")
    assert rows[2] == f"{root.run_id}_1|FAILED|EXIT_CODE|3|9.0 s|0.1|"
    assert texts["failures"].count("fell") >= 2 and "trials" not in texts


def test_inputs_are_masked_and_bounded(cli: InProcess) -> None:
    many = {f"name{number}": number for number in range(5000)}
    root = recorded_array(cli, ["SUCCEEDED"], values=[{"api_key": "0123456789", **many}])
    text = ReadPage(cli("report", root.run_id, "--to", "-").out.encode()).texts["runs"]
    assert "|api_key|name0|" in text and "|***|0|" in text and "0123456789" not in text and "name99" not in text


def test_a_search(cli: InProcess) -> None:
    search = {"config": "ds.json", "goal": "max", "metric": "speed"}
    root = recorded_array(cli, ["SUCCEEDED"], search=search)
    table = "trial,state,speed\n1,ended,7.5\n2,left out\n"
    write(os.path.join(root.outputs, "trials.csv"), table + "x" * 10)
    texts = ReadPage(cli("report", root.run_id, "--to", "-").out.encode()).texts
    assert "trial|state|speed|\n1|ended|7.5|\n2|left out||\nxxxxxxxxxx|||\n" in texts["trials"]


def test_a_damaged_array(cli: InProcess) -> None:
    root = recorded_array(cli, ["SUCCEEDED", "FAILED"])
    element = RunPaths(os.path.join(root.root, f"{root.run_id}_1"))
    write(element.result, "[" * 100_000)
    write(root.record, json.dumps([1]))
    result = cli("report", root.run_id, "--to", "-")
    assert result.code == 0 and "LOST" in ReadPage(result.out.encode()).texts["runs"], result
