"""The extras: who imports their packages, and what is said where one is not installed: a sentence, exit code 2."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from in_process import InProcess
from source_code import SOURCE, extras, imported_packages, packages_of_extras

from worldsize.errors import ConfigError, UsageError
from worldsize.extras import require_packages
from worldsize.wings.environments.conda import packages
from worldsize.wings.environments.pip import uv
from worldsize.wings.hpcpack.head.client import HeadNodeClient
from worldsize.wings.hpcpack.observe import observations
from worldsize.wings.hpcpack.settings import HeadAccess
from worldsize.wings.staging.object_stores import find_missing_support

IMPORTERS = {
    "httpx": {"compute/http/exchange.py", "wings/hpcpack/head/client.py", "wings/azure/workspace/client.py"},
    "azure": {"wings/azure/storage/blobs.py", "wings/azure/workspace/credentials.py"},
    "keyring": {"wings/hpcpack/head/credentials.py"},
    "rattler": {"wings/environments/conda/rattler_process.py"},
    "libcst": {
        "wings/convert/batches.py",
        "wings/convert/call_kinds.py",
        "wings/convert/converted_files.py",
        "wings/convert/definitions.py",
        "wings/convert/doubts.py",
        "wings/convert/figure_names.py",
        "wings/convert/figures.py",
        "wings/convert/loss_kinds.py",
        "wings/convert/marks.py",
        "wings/convert/optimizers.py",
        "wings/convert/program.py",
        "wings/convert/refusals.py",
        "wings/convert/rewrite.py",
        "wings/convert/surroundings.py",
        "wings/convert/syntax.py",
        "wings/convert/value_origins.py",
    },
    "fsspec": {"wings/staging/object_stores.py"},
    "matplotlib": {"wings/pictures/axes.py", "wings/pictures/matplotlib_figure.py"},
}
"""The files below `src/worldsize` that import each package of an extra at run time; uv is a program."""


def test_all_is_every_extra_that_commands_need() -> None:
    with open(SOURCE.parent / "pyproject.toml") as file:
        named = re.search(r'^all = \["worldsize\[(.*)\]"\]$', file.read(), re.MULTILINE)
    apart = ("all", "s3", "gs", "conformance", "torch", "examples")
    assert named is not None and {*named[1].split(","), *apart} == set(extras())


@pytest.mark.heavy
def test_no_other_file_imports_them() -> None:
    found: dict[str, set[str]] = {}
    packages = packages_of_extras()
    for path in (SOURCE / "worldsize").rglob("*.py"):
        text = path.read_text()
        if not any(package in text for package in packages):
            continue  # what imports a package has its name: most files need not be parsed
        for package in imported_packages(path) & packages:
            found.setdefault(package, set()).add(str(path.relative_to(SOURCE / "worldsize")))
    assert found == IMPORTERS


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    for package in packages:
        monkeypatch.setitem(sys.modules, package, None)


def test_what_is_there_is_imported() -> None:
    require_packages("this", "hpcpack", "json", "httpx")
    assert "httpx" in sys.modules


def test_the_first_missing_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "starlette", "uvicorn")
    with pytest.raises(ConfigError) as caught:
        require_packages("simulate", "simulator", "json", "starlette", "uvicorn")
    assert caught.value.what == "simulate needs starlette, which is not installed (extra simulator)"
    assert caught.value.hint == "pip install 'worldsize[simulator]'"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("words", "package", "extra"),
    [
        (["convert", "train.py"], "libcst", "convert"),
        (["simulate", "hpcpack", "--share", "share"], "starlette", "simulator"),
        (["nodes", "--compute", "head"], "httpx", "hpcpack"),
        (["selftest"], "pytest", "conformance"),
    ],
)
def test_a_command_ends_with_that_sentence(
    words: list[str], package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide(monkeypatch, package)
    cli = InProcess(str(tmp_path))
    cli.write("train.py", "print(1)\n")
    head = ['type = "hpcpack"', 'url = "https://127.0.0.1:9"', 'user = "me"', 'share = {head = "/a", node = "/a"}']
    cli.write("worldsize.toml", "\n".join(["[compute.head]", *head]))
    result = cli(*words, WORLDSIZE_HPCPACK_PASSWORD="secret")
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 2)
    assert "needs %s, which is not installed" % package in result.err
    assert "pip install 'worldsize[%s]'" % extra in result.err
    assert not os.path.exists(os.path.join(cli.project, "share"))


def test_a_head_node_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "httpx")
    access = HeadAccess("https://127.0.0.1:9", "me")
    with HeadNodeClient(access, lambda: "secret") as head, pytest.raises(ConfigError, match="needs httpx"):
        head.get("/jobs")


def test_the_state_of_a_run_that_cannot_be_asked_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "httpx")
    with HeadNodeClient(HeadAccess("https://127.0.0.1:9", "me"), lambda: "secret") as head:
        (seen,) = observations(head, [{"job": 1}])
    assert seen.phase == "unknown"
    assert seen.message == "HPC Pack: HPC Pack's client needs httpx, which is not installed (extra hpcpack)"


def test_builds_without_uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ConfigError) as caught:
        uv.find_uv({"PATH": os.fspath(tmp_path)})
    assert caught.value.hint == "pip install 'worldsize[env]'"


def test_the_solver_says_that_rattler_is_missing(tmp_path: Path) -> None:
    (tmp_path / "rattler.py").write_text("raise ImportError('none here')\n")
    argv = [sys.executable, packages.PROGRAM]
    done = subprocess.run(argv, input="{}", text=True, env={"PYTHONPATH": str(tmp_path)}, capture_output=True)
    assert done.returncode == 1 and json.loads(done.stdout) == {"error": "no rattler"} and "none here" in done.stderr


def test_addresses_of_storage_without_fsspec(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "fsspec")
    lacks = find_missing_support("abfss://data@account.dfs.core.windows.net/a")
    assert isinstance(lacks, UsageError)
    assert lacks.what == "reading abfss:// needs fsspec, which is not installed (extra data)"
    assert lacks.hint == "pip install 'worldsize[data]'"
