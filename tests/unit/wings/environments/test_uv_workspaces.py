"""What uv would look for above a project, where others could put it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.wings.environments.pip.uv_workspaces import (
    has_settings,
    is_search_exposed,
    is_workspace,
    may_omit_sources,
    settings_files,
    write_isolated_copy,
)

PROJECT = '[project]\nname = "demo"\nversion = "1"\n'


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Below a directory where everybody may make files."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "own" / "demo").mkdir(parents=True)
    return shared / "own" / "demo"


@pytest.mark.parametrize(
    ("text", "settings", "workspace"),
    [
        ("", True, True),
        ('[tool.uv]\nindex-url = "x"\n', False, True),
        ("[tool.uv.workspace]\n", False, False),
        ('[tool.uv.sources]\na = {path = "../a"}\n', False, True),
        ("[tool]\nuv = 3\n", True, True),
        ("[[[", True, True),
    ],
)
def test_where_a_search_ends(place: Path, text: str, settings: bool, workspace: bool) -> None:
    (place / "pyproject.toml").write_text(PROJECT + text)
    assert is_search_exposed(str(place), has_settings, os.environ) is settings
    assert is_search_exposed(str(place), is_workspace, os.environ) is workspace


def test_ones_own_directory_above_ends_it_too(place: Path) -> None:
    (place / "pyproject.toml").write_text(PROJECT)
    (place.parent / "pyproject.toml").write_text("[tool.uv.workspace]\nmembers = ['demo']\n")
    assert not is_search_exposed(str(place), is_workspace, os.environ)
    (place.parent / "pyproject.toml").unlink()
    (place.parent / "uv.toml").write_text("")
    assert not is_search_exposed(str(place), has_settings, os.environ)


def test_sources_are_done_without_where_there_are_none(place: Path) -> None:
    other = place.parent / "other"
    other.mkdir()
    (place / "pyproject.toml").write_text(PROJECT)
    assert may_omit_sources([str(place)], os.environ) and not may_omit_sources([], os.environ)
    (other / "pyproject.toml").write_text(PROJECT + '[tool.uv.sources]\na = {path = "../a"}\n')
    assert not may_omit_sources([str(place), str(other)], os.environ)
    (other / "pyproject.toml").write_text(PROJECT + "[tool.uv.workspace]\n")
    assert not may_omit_sources([str(place), str(other)], os.environ)


def test_a_copy_below_a_workspace_that_leaves_it_out(place: Path, tmp_path: Path) -> None:
    for name in ("pyproject.toml", "uv.lock"):
        (place / name).write_text(name)
    copy = Path(write_isolated_copy(str(place), str(tmp_path / "apart")))
    assert [(copy / name).read_text() for name in ("pyproject.toml", "uv.lock")] == ["pyproject.toml", "uv.lock"]
    assert is_workspace(str(copy.parent)) and not is_search_exposed(str(copy), is_workspace, os.environ)
    assert copy.stat().st_mode & 0o777 == 0o700


def test_where_uv_finds_requirements_beside(tmp_path: Path) -> None:
    """Found by review: a password of git's in one of these was started with."""
    project = tmp_path / "a" / "b"
    project.mkdir(parents=True)
    environ = {
        "HOME": str(tmp_path / "home"),
        "UV_OVERRIDE": "over.txt %s/more.txt" % tmp_path,
        "UV_CONSTRAINT": "no.txt",
    }
    paths = [
        tmp_path / "home/.config/uv/uv.toml",
        project / "over.txt",
        tmp_path / "more.txt",
        tmp_path / "a" / "uv.toml",
    ]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    assert settings_files(str(project), environ) == [str(path) for path in paths]
