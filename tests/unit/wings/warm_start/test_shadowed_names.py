"""Files beside a script that have the name of a module: a plain start finds them first."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest
from preloaded_node import IS_FORKED, Node

SCRIPT = "import gc\nprint('forked' if %s else 'plain')\n" % IS_FORKED


def shadows(node: Node, at: str, command: str = "python train.py") -> str:
    for name in ("train.py", "sub/train.py"):
        node.script(SCRIPT, name)
    node.script("", at)
    node.prepare(command=command)
    return node.imported().doubt


@pytest.mark.parametrize(
    ("at", "command"),
    [
        ("decimal.py", "python train.py"),
        ("decimal/__init__.py", "python train.py"),
        ("numbers.py", "python ./train.py"),
        ("decimal.cpython-311-x86_64-linux-gnu.so", "python train.py"),
        ("sub/decimal.py", "python sub/train.py"),
        ("decimal.py", "python -m sub.train"),
        ("app/decimal.py", "python app"),
        ("json.py", "python train.py"),
    ],
)
def test_a_file_with_the_name_of_a_module(node: Node, at: str, command: str) -> None:
    """Found: nobody asked for what worldsize itself had imported, and `python app` looks into `app`."""
    node.script(SCRIPT, "app/__main__.py")
    doubt = shadows(node, at, command)
    assert "has the name of a module that is preloaded" in doubt


@pytest.mark.parametrize(
    ("at", "command"),
    [
        ("decimal.txt", "python train.py"),
        ("decimal/other.py", "python train.py"),
        ("decimal.py", "python sub/train.py"),
        ("sub/decimal.py", "python train.py"),
        ("sub/decimal.py", "python -m sub.train"),
        ("model.py", "python train.py"),
        ("os.py", "python train.py"),
    ],
)
def test_a_file_that_no_start_finds_first(node: Node, at: str, command: str) -> None:
    assert shadows(node, at, command) == ""


def test_the_folder_is_that_of_the_script_itself(node: Node) -> None:
    node.script(SCRIPT, "real/train.py")
    node.script("", "real/decimal.py")
    Path(node.paths.code, "train.py").symlink_to("real/train.py")
    node.prepare()
    assert "real/decimal" in node.imported().doubt


def test_a_script_that_is_an_archive(node: Node) -> None:
    with zipfile.ZipFile(os.path.join(node.paths.code, "app"), "w") as archive:
        archive.writestr("__main__.py", SCRIPT)
        archive.writestr("decimal.py", "")
    node.prepare(command="python app")
    assert "is an archive" in node.start().doubt
    node.wait()
    assert node.logs() == ["plain\n", "plain\n"]
