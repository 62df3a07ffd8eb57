"""What pex sets in the environment of a zipapp is taken out again before anything is started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from worldsize.cli.zipapp import restore_environment
from worldsize.jobspec.config.config import ComputeSettings, Config
from worldsize.service import computes


def environment(tmp_path: Path, name: str, marker: str | None) -> str:
    folder = tmp_path / name / "bin"
    folder.mkdir(parents=True)
    (folder / "python").touch()
    if marker:
        (folder.parent / marker).touch()
    return str(folder)


def test_the_variables_of_pex_are_removed() -> None:
    environ = {"PEX": "/x/worldsize.pyz", "VIRTUAL_ENV": sys.prefix, "PATH": "/nowhere", "HOME": "/h"}
    restore_environment(environ)
    assert environ == {"PATH": "/nowhere", "HOME": "/h"}


def test_the_environment_that_the_user_activated_is_named_again(tmp_path: Path) -> None:
    bin_folder = environment(tmp_path, "own", "pyvenv.cfg")
    environ = {"PEX": "x", "VIRTUAL_ENV": sys.prefix, "PATH": bin_folder + ":/usr/bin"}
    restore_environment(environ)
    assert environ["VIRTUAL_ENV"] == str(tmp_path / "own")


def test_a_python_before_it_that_is_in_no_environment_wins(tmp_path: Path) -> None:
    folders = [environment(tmp_path, "plain", None), environment(tmp_path, "own", "pyvenv.cfg")]
    environ = {"VIRTUAL_ENV": sys.prefix, "PATH": os.pathsep.join(["", *folders])}
    restore_environment(environ)
    assert "VIRTUAL_ENV" not in environ


def test_an_environment_of_somebody_else_is_left_alone() -> None:
    environ = {"PEX": "x", "VIRTUAL_ENV": "/home/me/env"}
    restore_environment(environ)
    assert environ == {"VIRTUAL_ENV": "/home/me/env"}


def test_commands_do_not_get_the_python_of_a_zipapp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config(home=str(tmp_path), computes={"local": ComputeSettings("local", "local")})
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert computes.python_path(config, "local", {}) == (os.path.dirname(sys.executable),)
    (tmp_path / "PEX-INFO").touch()
    assert computes.python_path(config, "local", {}) == ()
