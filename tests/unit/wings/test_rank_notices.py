"""What data parallel says in a rank is written down, with the line of the script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from worldsize.plan.run_paths import RunPaths
from worldsize.state.notices import read_rank_notices
from worldsize.wings.data_parallel.inrank.rank_state import Training


def training(directory: Path, rank: str = "0") -> Training:
    size = {"WORLDSIZE_RANK": rank, "WORLDSIZE_WORLD_SIZE": "2", "WORLDSIZE_RUN_DIR": str(directory)}
    return Training("split", size)


def test_once_of_the_first_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "attempt-0").mkdir()
    first, second = training(tmp_path), training(tmp_path, "1")
    for each in (first, first, second):
        each.show_notice("the loss is a sum")
    assert capsys.readouterr().err == "worldsize: data parallel: the loss is a sum\n"
    (found,) = read_rank_notices(RunPaths(str(tmp_path)))
    assert (found["id"], found["text"]) == ("data-parallel", "data parallel: the loss is a sum")
    assert found["file"] == __file__ and isinstance(found["line"], int) and json.dumps(found)


def test_a_run_that_takes_no_file_is_told_all_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    training(tmp_path / "gone").show_notice("x")
    assert "data parallel: x" in capsys.readouterr().err
