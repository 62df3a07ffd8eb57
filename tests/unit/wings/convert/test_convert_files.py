"""Which files belong to a training, what its helpers are called, and the copy that a check works in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest.importorskip("libcst")

from worldsize.errors import UsageError
from worldsize.wings.convert.check.findings import original_line
from worldsize.wings.convert.check.project_copies import copy_project
from worldsize.wings.convert.converted_files import ConvertedFiles
from worldsize.wings.convert.helpers import helpers_for
from worldsize.wings.convert.project_files import read_training


def write(root: Path, texts: dict[str, str]) -> None:
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_modules_beside_the_script_are_read_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        tmp_path,
        {
            "train.py": "import os, torch, engine\nfrom lib.data import loader\nfrom lib import models\n",
            "engine.py": "import train\n",
            "lib/__init__.py": "",
            "lib/data.py": "from . import sizes\nfrom .. import other\nfrom ..outside import x\n",
            "lib/sizes.py": "def (:\n",
            "lib/models/__init__.py": "from .net import *\n",
            "lib/models/net.py": "",
            "unused.py": "",
            "torch.txt": "",
        },
    )
    monkeypatch.chdir(tmp_path)
    names = [
        "engine.py",
        "lib/__init__.py",
        "lib/data.py",
        "lib/models/__init__.py",
        "lib/models/net.py",
        "lib/sizes.py",
    ]
    assert sorted(read_training(["train.py"])) == [*names, "train.py"]
    assert next(iter(read_training(["./train.py", "unused.py"]))) == "train.py"
    assert "unused.py" in read_training(["train.py", "unused.py"])
    absolute = str(tmp_path / "train.py")
    assert sorted(read_training([absolute])) == [str(tmp_path / name) for name in [*names, "train.py"]]


def test_helpers_take_a_name_that_nothing_else_has(tmp_path: Path) -> None:
    first = helpers_for(str(tmp_path), {"train.py": "import torch\n"})
    assert (first.module, first.path, first.before) == ("ddp", str(tmp_path / "ddp.py"), "")
    (tmp_path / "ddp.py").write_text(first.text)
    assert helpers_for(str(tmp_path), {}).module == "ddp", "it is the same file"
    assert helpers_for(str(tmp_path), {"train.py": "ddp = 3\n"}).module == "ddp_ranks"
    (tmp_path / "ddp.py").write_text("mine\n")
    assert helpers_for(str(tmp_path), {}).module == "ddp_ranks"
    (tmp_path / "ddp_ranks").mkdir()
    assert helpers_for(str(tmp_path), {}).module == "worldsize_ddp"
    (tmp_path / "worldsize_ddp.py").symlink_to("nothing")
    with pytest.raises(UsageError, match="ddp, ddp_ranks, worldsize_ddp are all taken"):
        helpers_for(str(tmp_path), {})


def test_a_copy_has_no_environments_and_links_to_what_is_large(tmp_path: Path) -> None:
    project, copy = tmp_path / "project", tmp_path / "copy"
    texts = {"train.py": "1", ".git/config": "", "env/pyvenv.cfg": "", "data/a": "a", "many/0": ""}
    write(project, texts)
    for number in range(1, 1001):
        (project / "many" / str(number)).touch()
    with open(project / "large", "wb") as file:
        file.truncate(17 * 1024 * 1024)
    os.mkfifo(project / "pipe")
    (project / "inside").symlink_to("data/a")
    (project / "outside").symlink_to(tmp_path)
    (project / "loop").symlink_to("loop")
    copy.mkdir()
    copy_project(str(project), str(copy), {"train.py": "2", "data/new.py": "3"})
    assert sorted(os.listdir(copy)) == ["data", "inside", "large", "loop", "many", "outside", "train.py"]
    assert (copy / "train.py").read_text() == "2" and (project / "train.py").read_text() == "1"
    assert sorted(os.listdir(copy / "data")) == ["a", "new.py"] and os.listdir(project / "data") == ["a"]
    targets = {name: os.readlink(copy / name) for name in os.listdir(copy) if (copy / name).is_symlink()}
    assert targets["inside"] == str(copy / "data" / "a") and targets["outside"] == str(tmp_path)
    assert targets["many"] == str(project / "many") and targets["large"] == str(project / "large")


def test_a_project_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worldsize.wings.convert.check.project_copies.MOST_ENTRIES", 3)
    write(tmp_path, {"project/%d" % number: "" for number in range(4)})
    with pytest.raises(UsageError, match="more than 3 files"):
        copy_project(str(tmp_path / "project"), str(tmp_path), {})


def test_nothing_is_changed_through_a_link(tmp_path: Path) -> None:
    write(tmp_path, {"elsewhere/train.py": "1", "project/many/train.py": "1"})
    for number in range(1001):
        (tmp_path / "project" / "many" / str(number)).touch()
    (tmp_path / "project" / "lib").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "project" / "linked.py").symlink_to(tmp_path / "elsewhere" / "train.py")
    for number, name in enumerate(("lib/train.py", "many/train.py", "linked.py")):
        copy = tmp_path / ("copy-%d" % number)
        copy.mkdir()
        if name.startswith("lib"):
            with pytest.raises(UsageError, match="a link leads to it"):
                copy_project(str(tmp_path / "project"), str(copy), {name: "2"})
        else:
            copy_project(str(tmp_path / "project"), str(copy), {name: "2"})
            assert (copy / name).read_text() == "2"
    texts = [path.read_text() for path in tmp_path.glob("[ep]*/**/train.py")]
    assert texts == ["1", "1"]


def test_lines_of_the_result_are_said_as_the_originals() -> None:
    before = "a\nb\nfor x in loader:\n    f()\n"
    after = "a\nimport ddp\nb\nfor x in ddp.share(loader):\n    f()\n"
    assert [original_line(before, after, line) for line in (1, 3, 4, 5)] == [1, 2, 3, 4]
    assert original_line(before, after, 2) in (1, 2) and original_line("", "a\n", 1) == 1


def test_where_a_file_cannot_be_written_the_others_are_as_before(tmp_path: Path) -> None:
    write(tmp_path, {"train.py": "1", "net.py/file": ""})
    helpers, script, module = (str(tmp_path / name) for name in ("ddp.py", "train.py", "net.py"))
    before, after = {script: "1", module: "2", helpers: ""}, {script: "3", module: "4", helpers: "5"}
    with pytest.raises(UsageError, match="cannot be written"):
        ConvertedFiles(before, after, script, helpers, (), ()).write()
    assert (tmp_path / "train.py").read_text() == "1" and sorted(os.listdir(tmp_path)) == ["net.py", "train.py"]
