"""A run directory whose files hold values that no release has written: whoever looks at it is told so, in words."""

from __future__ import annotations

import copy
import json
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import Cli
from selection import cases

from worldsize.cli.main import main

VALUES = [None, 5, -1, 1.5, True, "x", "", [], {}, [1], [None], {"a": 1}, [[]], 10**400, "\ud800", "../../x"]
CASES = cases(300)


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a value of JSON's: the ways to it."""
    yield at
    keys = value if isinstance(value, dict) else range(min(3, len(value))) if isinstance(value, list) else ()
    for key in keys:
        yield from places(value[key], (*at, key))


def changed(value: Any, at: tuple[Any, ...], new: Any, gone: bool) -> Any:
    if not at:
        return new
    value = copy.deepcopy(value)
    inner = value
    for key in at[:-1]:
        inner = inner[key]
    if gone:
        del inner[at[-1]]
    else:
        inner[at[-1]] = new
    return value


class World:
    """A run, an array of two, and files of theirs, each line a value."""

    def __init__(self, cli: Cli) -> None:
        job = {"command": "echo $RANK; test $RANK != 1", "resources": {"instance_count": 2}, "code": "."}
        cli.write("job.yml", json.dumps(job))
        cli("run", "-q", "job.yml")
        run = cli.latest()
        cli.write(
            "many.yml", json.dumps({"command": "echo ${{inputs.lr}}", "inputs": {"lr": 1}, "matrix": {"lr": [1, 2]}})
        )
        cli.ok("run", "-q", "many.yml")
        array = cli.latest()
        self.roots = [cli.path(run), cli.path(array), os.path.join(cli.path(array), array + "_1")]
        self.other = cli.path(cli.run("-q", "--", "true"))
        self.files = [str(path) for root in self.roots[:2] for path in Path(root).rglob("*.json*")]

    def hide_results(self) -> list[tuple[str, str]]:
        """Then what the nodes have left counts. What they held."""
        found = [(path, Path(path).read_text()) for path in self.files if path.endswith("result.json")]
        for path, _ in found:
            os.unlink(path)
        return found

    def verbs(self) -> list[list[str]]:
        looks = [
            [*verb, root]
            for root in self.roots
            for verb in (["status"], ["status", "-o", "json"], ["logs"], ["wait", "--timeout", "5"])
        ]
        compared = [["diff", root, self.other] for root in self.roots]
        return [*looks, *compared, ["logs", self.roots[0], "--rank", "1"], ["list"], ["list", "-o", "json"]]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    cli = Cli(str(tmp_path))
    for name, value in cli.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(cli.project)
    yield World(cli)
    cli.close()


def test_values_that_nobody_wrote(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Found by changing one value at a time: 28 places ended in a traceback."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # as the program does first
    chance, verbs = random.Random(14), world.verbs()
    cases = []
    for path in sorted(world.files):
        lines = Path(path).read_text().splitlines()
        for number, line in enumerate(lines):
            cases += [(path, number, at, new, False) for at in places(json.loads(line)) for new in VALUES]
            cases += [(path, number, at, None, True) for at in places(json.loads(line)) if at]
    chance.shuffle(cases)
    for path, number, at, new, gone in cases[:CASES]:
        text = Path(path).read_text()
        lines = text.splitlines()
        lines[number] = json.dumps(changed(json.loads(lines[number]), at, new, gone))
        Path(path).write_text("\n".join(lines) + "\n")
        ends = [] if path.endswith("result.json") or chance.random() < 0.5 else world.hide_results()
        for words in chance.sample(verbs, 3):
            try:
                main(words)
            except SystemExit:
                pass
            except Exception as error:  # noqa: BLE001 (whatever it is)
                pytest.fail("%r of %s, with %s %s: %r" % (words, path, at, "gone" if gone else repr(new)[:60], error))
        for end, said in ends:
            Path(end).write_text(said)
        Path(path).write_text(text)
    capsys.readouterr()


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    """Found beside these: a run of a program with such a name, and no list in JSON from then on."""
    cli = Cli(str(tmp_path))
    program = os.path.join(os.fsencode(cli.project), b"\xff.sh")
    with open(os.open(program, os.O_WRONLY | os.O_CREAT, 0o700), "w") as file:
        file.write("#!/bin/sh\n")
    run = cli.run("-q", "--", os.fsdecode(b"./\xff.sh"))
    rows = json.loads(cli.ok("list", "-o", "json").out)
    assert [row["id"] for row in rows] == [run] and rows[0]["name"] == "\udcff"
    cli.close()
