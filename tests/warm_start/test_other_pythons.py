"""The table of docs/explanation/warm-start.md on every Python that is found here, with modules that each of
them has; and in a virtual environment."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest
from pythons import supported

from warm_start.starts import Starts, differences, way

WARM = "[json, decimal, multiprocessing.context]"
pytestmark = pytest.mark.exhaustive


@cache
def program(python: str) -> str:
    """The interpreter itself: what is on PATH may be a script that starts it."""
    code = "import sys; print(sys.executable)"
    return os.path.realpath(subprocess.check_output([python, "-c", code], text=True).strip())


def agree(starts: Starts, command: str) -> None:
    cold, warm = starts("off", command), starts(WARM, command)
    assert (way(cold), way(warm)) == (None, "warm")
    for before, after in zip(cold.ranks, warm.ranks, strict=True):
        values = {name: differences(before["values"][name], after["values"][name]) for name in before["values"]}
        assert {name: value for name, value in values.items() if value} == {}
    assert warm.logs == cold.logs
    for name in ("random", "authkey"):
        assert warm.ranks[0]["fresh"][name] != warm.ranks[1]["fresh"][name]


@pytest.mark.parametrize("python", supported())
def test_each_row_on_this_python(starts: Starts, python: str) -> None:
    agree(starts, "%s -u rank_probe.py OUT --rank=$RANK" % program(python))


@pytest.mark.parametrize("python", supported())
def test_a_module_on_this_python(starts: Starts, python: str) -> None:
    agree(starts, "%s -O -m rank_probe OUT" % program(python))


def test_each_row_in_a_virtual_environment(starts: Starts, tmp_path: Path) -> None:
    place = str(tmp_path / "env")
    subprocess.check_call([program(supported()[-1]), "-m", "venv", "--without-pip", place])
    agree(starts, "%s/bin/python rank_probe.py OUT" % place)
