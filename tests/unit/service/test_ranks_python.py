"""Which Python the record says that ranks execute: the one on their PATH, whatever is activated by name alone."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize.service.submission.run_directory import ranks_python


def plan_of(*argv: str, **values: Any) -> Any:
    return SimpleNamespace(**{"argv": argv, "path": (), "environment": {}, "setup": (), **values})


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("venv", "system"):
        program = tmp_path / name / "bin" / "python"
        program.parent.mkdir(parents=True)
        program.write_text("")
        os.chmod(program, 0o755)
    return tmp_path


def test_an_environment_that_is_not_on_path_is_not_what_runs(place: Path) -> None:
    environ = {"VIRTUAL_ENV": str(place / "venv"), "PATH": str(place / "system" / "bin")}
    assert ranks_python(plan_of("python", "train.py"), environ) == str(place / "system" / "bin" / "python")
    assert ranks_python(plan_of("bash", "-c", "x"), environ) == str(place / "system" / "bin" / "python")


def test_directories_of_the_plan_and_the_jobs_path_come_first(place: Path) -> None:
    environ = {"PATH": str(place / "system" / "bin")}
    venv = str(place / "venv" / "bin")
    assert ranks_python(plan_of("python", path=(venv,)), environ) == os.path.join(venv, "python")
    assert ranks_python(plan_of("python", environment={"PATH": venv}), environ) == os.path.join(venv, "python")


def test_a_command_that_names_its_python_runs_that(place: Path) -> None:
    own = str(place / "venv" / "bin" / "python")
    assert ranks_python(plan_of(own, "train.py"), {"PATH": ""}) == own


def test_nothing_is_said_that_is_not_known(place: Path) -> None:
    assert ranks_python(plan_of("python"), {"PATH": str(place)}) is None
    assert ranks_python(plan_of("python", setup=("module load x",)), {"PATH": str(place / "venv" / "bin")}) is None
