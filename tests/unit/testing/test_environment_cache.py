"""The cache of test environments: built once, whole or not at all, and copied into a checkout."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from scripts.environments import __main__ as command_line
from scripts.environments import cache, pythons, recipes
from scripts.environments.cache import MARKER, clone, entry_path, is_complete, obtain, remove_unused
from scripts.environments.recipes import RECIPES, Recipe, client_requirements

RECIPE = Recipe(("light.txt",), "1 MB")


class Builder:
    """Makes what looks like an environment, and counts how often."""

    def __init__(self) -> None:
        self.built = 0

    def __call__(self, path: str) -> None:
        self.built += 1
        os.makedirs(os.path.join(path, "bin"))
        # As in an environment: a link to a Python that need not have pip itself, which the environment has.
        os.symlink(os.path.realpath(sys.executable), os.path.join(path, "bin", "python"))
        Path(path, "pyvenv.cfg").write_text("home = %s\n" % os.path.dirname(os.path.realpath(sys.executable)))
        packages = Path(sysconfig.get_path("purelib", "posix_prefix", {"base": path, "platbase": path}))
        packages.mkdir(parents=True)
        (packages / "pip.py").touch()
        for name in ("one", "two"):
            Path(path, name).write_text(name)
        tool = Path(path, "bin", "tool")
        tool.write_text("#!%s/bin/python\n" % path)
        tool.chmod(0o755)


@pytest.fixture
def build() -> Builder:
    return Builder()


@pytest.fixture
def entry(tmp_path: Path) -> str:
    return str(tmp_path / "environments" / "main-1")


def test_it_is_built_once(entry: str, build: Builder) -> None:
    assert (obtain(entry, build), obtain(entry, build), build.built) == (True, False, 1)


def test_what_was_interrupted_is_built_again(entry: str, build: Builder) -> None:
    def interrupted(path: str) -> None:
        build(path)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        obtain(entry, interrupted)
    assert not is_complete(entry)
    assert obtain(entry, build) and is_complete(entry)


@pytest.mark.parametrize("damage", ["a file is gone", "its Python no longer exists", "the marker is garbage"])
def test_what_is_torn_is_built_again(entry: str, build: Builder, damage: str) -> None:
    obtain(entry, build)
    if damage == "a file is gone":
        os.unlink(os.path.join(entry, "two"))
    elif damage == "its Python no longer exists":
        os.unlink(os.path.join(entry, "bin", "python"))
        os.symlink("/no/such/python", os.path.join(entry, "bin", "python"))
    else:
        Path(entry, MARKER).write_text("[]")
    assert not is_complete(entry)
    assert obtain(entry, build) and build.built == 2 and is_complete(entry)


def test_compiled_files_change_nothing(entry: str, build: Builder) -> None:
    obtain(entry, build)
    Path(entry, "one.pyc").touch()
    assert not obtain(entry, build)


def test_another_python_other_requirements_and_another_recipe_are_other_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(recipe: Recipe = RECIPE) -> str:
        return entry_path(str(tmp_path), "x", recipe, sys.executable)

    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "light.txt").write_text("a")
    monkeypatch.setattr(cache, "ROOT", str(tmp_path))
    first = found()
    assert found() == first
    assert found(RECIPE._replace(extras=("hpcpack",))) != first
    monkeypatch.setattr(cache, "identity", lambda python: "another")
    assert found() != first
    monkeypatch.undo()
    monkeypatch.setattr(cache, "ROOT", str(tmp_path))
    (tmp_path / "requirements" / "light.txt").write_text("b")
    assert found() != first


def test_a_clone_has_its_own_paths_and_shares_the_files(entry: str, build: Builder, tmp_path: Path) -> None:
    obtain(entry, build)
    target = str(tmp_path / ".venv")
    os.mkdir(target)
    clone(entry, target)
    assert Path(target, "bin", "tool").read_text() == "#!%s/bin/python\n" % target
    assert os.access(os.path.join(target, "bin", "tool"), os.X_OK)
    assert Path(entry, "bin", "tool").read_text() == "#!%s/bin/python\n" % entry
    assert os.stat(os.path.join(target, "one")).st_ino == os.stat(os.path.join(entry, "one")).st_ino
    assert not os.path.exists(os.path.join(target, MARKER)) and is_complete(entry)
    assert sorted(os.listdir(tmp_path)) == [".venv", "environments"]


def test_a_clone_onto_another_file_system_is_a_copy(
    entry: str, build: Builder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: str, target: str) -> None:
        raise OSError("Invalid cross-device link")

    obtain(entry, build)
    monkeypatch.setattr(os, "link", refuse)
    clone(entry, str(tmp_path / ".venv"))
    assert (tmp_path / ".venv" / "two").read_text() == "two"


def test_what_nobody_used_for_a_month_is_removed(entry: str, build: Builder, tmp_path: Path) -> None:
    obtain(entry, build)
    now = os.path.getmtime(os.path.join(entry, MARKER))
    assert remove_unused(str(tmp_path), now + 29 * 86400) == []
    assert remove_unused(str(tmp_path), now + 31 * 86400) == ["main-1"]
    assert not os.path.exists(entry)


def test_the_directory_of_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("WORLDSIZE_TEST_CACHE", raising=False)
    assert cache.cache_directory() == "/home/me/.cache/worldsize-test"
    monkeypatch.setenv("WORLDSIZE_TEST_CACHE", "/scratch/tests")
    assert cache.cache_directory() == "/scratch/tests"


def test_the_files_of_each_recipe_exist() -> None:
    for name, recipe in {**RECIPES, **recipes.UNIT_TESTS, **recipes.ON_REQUEST}.items():
        assert all(os.path.exists(os.path.join(recipes.ROOT, path)) for path in recipe.inputs()), name


def test_worldsizes_own_requirements_are_those_of_its_extras() -> None:
    all_of_it = client_requirements(RECIPES["main"])
    names = {re.split("[<>=]", line)[0] for line in all_of_it}
    assert {"msgspec", "httpx", "starlette", "py-rattler", "libcst", "adlfs", "keyring"} <= names
    assert "torch" not in names and not any("[" in line for line in all_of_it)
    light = client_requirements(recipes.UNIT_TESTS["py3.11"])
    assert set(light) < set(all_of_it) and any(line.startswith("httpx") for line in light)
    assert client_requirements(RECIPES["jax"]) == []


def test_this_python_is_chosen_where_it_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    here = "%d.%d" % sys.version_info[:2]
    assert pythons.choose((here, "3.99")) == sys.executable
    monkeypatch.setattr(pythons, "find", {"3.98": "/b", "3.97": "/a"}.get)
    assert pythons.choose(("3.97", "3.98", "3.99")) == "/b"
    assert pythons.choose(("3.99",)) is None


def test_what_cannot_be_made_here_is_said_and_fails_under_ci(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("WORLDSIZE_TEST_CACHE", str(tmp_path))
    monkeypatch.setattr(command_line, "choose", lambda versions: None)
    monkeypatch.setenv("CI", "")
    assert command_line.main(["horovod"]) == 0
    assert "THE TESTS OF HOROVOD WILL BE SKIPPED" in capsys.readouterr().err
    monkeypatch.setenv("CI", "true")
    assert command_line.main(["horovod"]) == 1
    assert command_line.main(["nothing"]) == 2
    assert "no such environment: nothing" in capsys.readouterr().err


def test_a_build_that_fails_is_said_with_its_last_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("WORLDSIZE_TEST_CACHE", str(tmp_path))
    monkeypatch.setattr(command_line, "commands", lambda *_: [["sh", "-c", "echo no room; exit 1"]])
    assert command_line.main(["jax"]) == 1
    assert "failed with code 1:\nno room" in capsys.readouterr().err
    monkeypatch.setattr(command_line, "commands", lambda *_: [["sh", "-c", "echo no compiler; exit 3"]])
    monkeypatch.setenv("CI", "")
    assert command_line.main(["jax"]) == 0
    assert "no .venv-jax: no compiler" in capsys.readouterr().err


def test_the_shell_scripts_are_shell() -> None:
    folder = Path(recipes.ROOT, "scripts")
    for script in [*folder.glob("*.sh"), *folder.glob("*/*.sh"), Path(recipes.ROOT, ".ci", "run")]:
        subprocess.run(["sh", "-n", str(script)], check=True)
