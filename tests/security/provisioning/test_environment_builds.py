"""Environments are built from what their description says, and from nothing that others have put in the way."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from driver import Cli
from security.people import STRANGER, Machine, Person

from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.wings.environments.pip import wheels
from worldsize.wings.environments.workspace.prefixes import find_prefix, write_description


@pytest.fixture
def nobody(machine: Machine) -> Person:
    return machine.person(STRANGER)


@pytest.mark.exhaustive(unless=["uv.toml"])
@pytest.mark.parametrize("name", ["uv.toml", "pyproject.toml"])
def test_settings_of_uv_in_a_shared_runs_dir(tmp_path: Path, machine: Machine, nobody: Person, name: str) -> None:
    """Found by review: uv asked every directory above an environment where packages come from."""
    cli, shared = Cli(str(tmp_path)), machine.directory(0o1777)
    cli.write("worldsize.toml", '[compute.local]\nruns_dir = "%s"\n' % shared)
    nobody.python("import sys; open(sys.argv[1], 'w').write('[[[ evil')", os.path.join(shared, name))
    cli.write("job.yml", "command: python -V\nenvironment: {name: own, python: '%d.%d'}\n" % sys.version_info[:2])
    result = cli("run", "-q", "job.yml")
    assert result.code == 0, result
    cli.close()


def test_settings_of_uv_above_a_project(tmp_path: Path, machine: Machine, nobody: Person) -> None:
    cli, shared = Cli(str(tmp_path)), machine.directory(0o1777)
    own = os.path.join(shared, "own")
    os.mkdir(own)
    Path(own, "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1.0"\n')
    nobody.python("import sys; open(sys.argv[1], 'w').write('no-index = true')", shared + "/uv.toml")
    cli.write("job.yml", "command: python -V\nenvironment: {file: %s/pyproject.toml}\n" % own)
    refused = cli("run", "-q", "job.yml")
    assert refused.code != 0 and shared + "/uv.toml: uv would read package sources from it" in refused.err, refused
    os.unlink(shared + "/uv.toml")
    os.chown(own, 0, STRANGER)
    os.chmod(own, 0o2775)  # a project of a group's: its files are the ones that the job names
    assert "uv would read package sources" not in cli("run", "-q", "job.yml").err
    cli.close()


def test_a_workspace_above_a_source_tree(tmp_path: Path, machine: Machine, nobody: Person) -> None:
    """Found by review: uv took where the tree's dependencies come from out of another user's pyproject.toml."""
    cli, shared = Cli(str(tmp_path)), machine.directory(0o1777)
    tree = Path(shared, "own", "pkg")
    tree.mkdir(parents=True)
    (tree / "pyproject.toml").write_text('[project]\nname = "pkg"\nversion = "1"\n')
    (tree.parent / "requirements.txt").write_text("./pkg\n")
    evil = '[tool.uv.workspace]\nmembers = ["own/pkg"]\n'
    nobody.python("import sys; open(sys.argv[1], 'w').write(sys.argv[2])", shared + "/pyproject.toml", evil)
    for pip in (["./pkg"], ["-r requirements.txt"], ["pkg @ file://%s" % tree], ["pkg @ ./pkg"], ["../own/pkg"]):
        job = tree.parent / "job.yml"
        job.write_text(json.dumps({"command": "true", "environment": {"python": ">=3.8", "pip": pip}}))
        refused = cli("run", "-q", str(job))
        assert refused.code != 0 and shared + "/pyproject.toml: uv would read package sources from it" in refused.err, (
            pip,
            refused,
        )
    cli.close()


@pytest.mark.exhaustive(unless=["a project-a workspace", "a tree-a source", "a tree-an address"])
@pytest.mark.parametrize("how", ["a source", "an address", "a workspace"])
@pytest.mark.parametrize("via", ["a tree", "a project"])
def test_a_workspace_above_a_tree_that_another_names(
    tmp_path: Path, machine: Machine, nobody: Person, how: str, via: str
) -> None:
    """Found by review: what a tree of the job's takes packages from was not looked at, and somebody else's setup.py was
    executed."""
    cli, shared = Cli(str(tmp_path)), machine.directory(0o1777)
    tree = Path(shared, "own", "b")
    tree.mkdir(parents=True)
    (tree / "pyproject.toml").write_text('[project]\nname = "b"\nversion = "1"\n')
    head = '[project]\nname = "a"\nversion = "1"\ndependencies = ["b%s"]\n'
    source = '[tool.uv.sources]\nb = { path = "%s" }\n' % tree
    member = "[tool.uv.sources]\nb = { workspace = true }\n[tool.uv.workspace]\nmembers = ['%s']\n"
    said = {"a source": head % "" + source, "an address": head % (" @ file://%s" % tree)}
    said["a workspace"] = head % "" + member % os.path.relpath(tree, os.path.join(cli.project, "a"))
    cli.write("a/pyproject.toml", said[how])
    evil = '[tool.uv.workspace]\nmembers = ["own/b"]\n'
    nobody.python("import sys; open(sys.argv[1], 'w').write(sys.argv[2])", shared + "/pyproject.toml", evil)
    environment = {"pip": ["./a"]} if via == "a tree" else {"file": "a/pyproject.toml"}
    cli.write("job.yml", json.dumps({"command": "true", "environment": {"python": ">=3.8", **environment}}))
    refused = cli("run", "-q", "job.yml")
    assert refused.code != 0 and shared + "/pyproject.toml: uv would read package sources from it" in refused.err, (
        refused
    )
    cli.close()


def test_a_project_that_is_reached_through_a_link(tmp_path: Path, machine: Machine, nobody: Person) -> None:
    """Found by review: uv looks above where the link leads, and only where it lies was looked at."""
    cli, shared = Cli(str(tmp_path)), machine.directory(0o1777)
    own = os.path.join(shared, "own")
    os.mkdir(own)
    Path(own, "pyproject.toml").write_text('[project]\nname = "demo"\nversion = "1.0"\n')
    nobody.python("import sys; open(sys.argv[1], 'w').write('no-index = true')", shared + "/uv.toml")
    os.symlink(own, os.path.join(cli.project, "link"))
    cli.write("job.yml", "command: python -V\nenvironment: {file: link/pyproject.toml}\n")
    refused = cli("run", "-q", "job.yml")
    assert refused.code != 0 and shared + "/uv.toml: uv would read package sources from it" in refused.err, refused
    cli.close()


def test_a_lock_names_another_users_environment(tmp_path: Path, machine: Machine, nobody: Person) -> None:
    """Found by review: a lock's prefix was taken, whoever had made it, where it said that it was the same."""
    prefix = machine.directory(0o755)
    write_description(prefix, {"digest": "0" * 64})
    lock = {"prefix": prefix, "digest": "0" * 64, "name": "x", "pip": []}
    recipe: Any = SimpleNamespace(lock=lock, spec=EnvironmentSpec(name="x"), fingerprint="2" * 64)
    assert find_prefix(str(tmp_path), recipe) == prefix
    for path in (prefix, *map(str, Path(prefix).rglob("*"))):
        os.chown(path, nobody.uid, nobody.uid)
    assert find_prefix(str(tmp_path), recipe) != prefix


def test_python_is_asked_in_no_directory_of_anothers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by review: `python -c` takes modules from where it is started."""
    mark = tmp_path / "mark"
    (tmp_path / "sysconfig.py").write_text("open(%r, 'w')\n" % str(mark))
    monkeypatch.chdir(tmp_path)
    assert wheels._tags(sys.executable, os.environ)
    assert wheels._is_runnable([sys.executable, "-m", "pip", "--version"], os.environ) is not None
    assert not mark.exists()
