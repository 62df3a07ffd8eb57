"""Files and directories that cannot be used, seen by the command line as a process of an ordinary user."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from driver import Cli

JOB = "command: echo $X\n"


def refused(cli: Cli, *words: str, says: tuple[str, ...]) -> None:
    result = cli(*words)
    assert (result.code, result.out) == (2, ""), result
    assert "Traceback" not in result.err and all(part in result.err for part in says), result.err
    assert not os.path.exists(cli.home)


def test_what_may_not_be_read(cli: Cli) -> None:
    """Neither input, nor job file, nor configuration."""
    cli.ordinary = True
    job = cli.write("job.yml", JOB + "inputs: {d: {type: uri_file, path: ./secret}}\n")
    secret = cli.write("secret", "x")
    os.chmod(secret, 0)
    refused(cli, "run", "job.yml", says=("job.yml:2", "inputs.d.path", "secret", "cannot be read"))
    os.chmod(job, 0)
    refused(cli, "run", "job.yml", says=("job.yml", "Permission denied"))
    config = cli.write("worldsize.toml", "")
    os.chmod(config, 0)
    refused(cli, "run", "--", "true", says=("worldsize.toml", "Permission denied"))


def test_code_that_may_not_be_read(cli: Cli) -> None:
    cli.ordinary = True
    os.chmod(cli.write("locked.txt", "x"), 0)
    result = cli("run", "--", "true")
    assert result.code == 2 and "locked.txt" in result.err and "Traceback" not in result.err
    assert not [name for name in os.listdir(os.path.join(cli.home, "runs")) if name[0] == "2"]


def test_code_too_large_for_a_snapshot(cli: Cli) -> None:
    with open(os.path.join(cli.project, "weights.bin"), "wb") as file:
        file.truncate(2 << 30)
    result = cli("run", "--", "true")
    assert result.code == 2 and "weights.bin" in result.err and ".amlignore" in result.err
    assert not [name for name in os.listdir(os.path.join(cli.home, "runs")) if name[0] == "2"]
    cli.write(".amlignore", "*.bin\n")
    assert "weights" not in cli.ok("run", "--", "ls").out


def test_a_home_that_cannot_be(cli: Cli) -> None:
    file = cli.write("file", "")
    result = cli("run", "--", "true", WORLDSIZE_HOME=file)
    assert (
        result.code == 1 and "file" in result.err and "WORLDSIZE_HOME" in result.err and "Traceback" not in result.err
    )
    result = cli("list", WORLDSIZE_HOME=file)
    assert result.code in (0, 1, 2) and "Traceback" not in result.err
    result = cli("run", "--", "true", WORLDSIZE_HOME="/proc/nope")
    assert result.code == 1 and "Traceback" not in result.err


@pytest.mark.parametrize(
    "change",
    [
        lambda result: {**result, "summary": {**result["summary"], "state": "DONE"}},
        lambda result: {**result, "summary": {**result["summary"], "state": ["FAILED"]}},
        lambda result: {**result, "failure": {"nonsense": 1}},
        lambda result: {"summary": result["summary"]},
        lambda result: {},
        lambda result: [result],
    ],
)
def test_a_result_that_tells_no_end(cli: Cli, change: Callable[[dict[str, Any]], object]) -> None:
    """Found by trying: whoever waited for the run of a directory with an invented state waited for ever."""
    run = cli.run("--", "true")
    path = cli.path(run, "result.json")
    with open(path) as file:
        result = json.load(file)
    with open(path, "w") as file:
        json.dump(change(result), file)
    waited = cli("wait", run, timeout=30)
    assert waited.code == 1 and "LOST" in waited.err, waited
    for words in (("status", run), ("list",), ("logs", run), ("status", cli.path(run))):
        looked = cli(*words)
        assert looked.code in (0, 1) and "Traceback" not in looked.err, looked
    assert "its run directory is damaged" in cli("status", run).out


@pytest.mark.parametrize("elements", [10**9, 10**30, -1, 0, "3", None, 1.5, True])
def test_an_array_of_more_elements_than_there_can_be(cli: Cli, elements: object) -> None:
    """Found by review: a directory of somebody else's took all memory of whoever looked at it."""
    array = cli.submit("--count", "2", "--", "true")
    cli("wait", array)
    path = cli.path(array, "array.json")
    with open(path) as file:
        value = json.load(file)
    with open(path, "w") as file:
        json.dump({**value, "elements": elements}, file)
    for words in (("status", cli.path(array)), ("status", array), ("list", "--elements"), ("logs", array)):
        looked = cli(*words)
        assert looked.code in (0, 1, 2) and "Traceback" not in looked.err, looked
    assert "elements" in cli("status", cli.path(array)).err
