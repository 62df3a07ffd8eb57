"""The variables that a conda environment brings."""

from __future__ import annotations

import json
from pathlib import Path

from worldsize.plan.conda_variables import conda_variables


def test_those_of_the_user_come_after_those_of_packages(tmp_path: Path) -> None:
    packages = tmp_path / "etc" / "conda" / "env_vars.d"
    packages.mkdir(parents=True)
    (packages / "b.json").write_text(json.dumps({"B": "package", "NUMBER": 1}))
    (packages / "a.json").write_text(json.dumps({"A": "first", "B": "first"}))
    (packages / "note.txt").write_text(json.dumps({"env_vars": {"C": "no"}}))
    (packages / "broken.json").write_text("{")
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "conda-meta" / "state").write_text(json.dumps({"env_vars": {"A": "user"}}))
    assert conda_variables(str(tmp_path)) == {"A": "user", "B": "package"}


def test_there_may_be_none(tmp_path: Path) -> None:
    assert conda_variables(str(tmp_path)) == {}
    (tmp_path / "conda-meta").mkdir()
    (tmp_path / "conda-meta" / "state").write_text(json.dumps({"env_vars": ["A"]}))
    assert conda_variables(str(tmp_path)) == {}
