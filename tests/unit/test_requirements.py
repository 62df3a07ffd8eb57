"""What requirements files and projects take from this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.environment.requirements import local_directories, local_sources, project_name


def project(directory: Path, text: str) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "pyproject.toml").write_text(text)
    return str(directory)


def test_the_source_trees_of_a_project(tmp_path: Path) -> None:
    said = (
        '[tool.uv.sources]\nlib = { path = "../lib" }\nweb = { git = "https://host/web" }\ntwo = [{ path = "two" }]\n'
    )
    assert local_sources(project(tmp_path / "app", said)) == [str(tmp_path / "app" / "two"), str(tmp_path / "lib")]
    lock = '[[package]]\nname = "lib"\nsource = { editable = "../lib" }\n'
    (tmp_path / "app" / "uv.lock").write_text(lock)
    assert local_sources(str(tmp_path / "app")) == [str(tmp_path / "lib")]


def test_those_of_lines(tmp_path: Path) -> None:
    lib = project(tmp_path / "lib", '[project]\nname = "lib"\n')
    assert local_directories(["numpy", "lib @ file://%s" % lib, lib + "[extra] ; python_version > '3'"]) == [lib]
    assert project_name(lib) == "lib"


ODD = "[project]\nname = 3\n[tool.uv.sources]\na = 1\nb = [2, {}]\nc = { path = 4 }"


@pytest.mark.parametrize(
    "said", ["", "no toml", "tool = 3", "project = 'x'", "[tool]\nuv = []", "[tool.uv]\nsources = 'x'", ODD]
)
def test_projects_that_hold_something_else_are_left_to_uv(tmp_path: Path, said: str) -> None:
    odd = project(tmp_path, said)
    assert local_sources(odd) == [] and project_name(odd) is None
