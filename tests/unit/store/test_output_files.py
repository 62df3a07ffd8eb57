"""What a run has written, found beside the snapshot of its code; and copies of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.errors import StorageError
from worldsize.plan.run_paths import RunPaths
from worldsize.snapshot.snapshot import take_snapshot
from worldsize.store.output_copies import copy_output, is_wanted
from worldsize.store.output_files import OutputFile, count_working_directory_files, has_output_files, output_files
from worldsize.store.runs import create_run, objects_dir


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    code = tmp_path / "code"
    (code / "data").mkdir(parents=True)
    (code / "train.py").write_text("print()\n")
    (code / "data" / "a.csv").write_text("1,2\n")
    paths = create_run(str(tmp_path / "home"))
    take_snapshot(str(code), paths, objects_dir(os.path.dirname(paths.root)))
    return paths


def write(root: str, name: str, text: str = "x") -> None:
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def test_the_snapshot_alone_is_nothing_written(paths: RunPaths) -> None:
    assert list(output_files(paths)) == [] and not has_output_files(paths)


def test_outputs_come_first_then_the_working_directory(paths: RunPaths) -> None:
    write(paths.code, "loss.csv", "0.5\n")
    write(paths.code, "data/b.csv")
    write(paths.code, "__pycache__/train.pyc")
    write(paths.outputs, "best/model.pt", "weights")
    os.symlink("/etc/passwd", os.path.join(paths.code, "link"))
    assert list(output_files(paths)) == [
        OutputFile("outputs/best/model.pt", 7, "outputs"),
        OutputFile("loss.csv", 4, "workdir"),
        OutputFile("data/b.csv", 1, "workdir"),
    ]
    assert [count_working_directory_files(paths, most) for most in (0, 1, 5)] == [1, 2, 2]


def test_a_file_of_the_snapshot_that_was_changed_is_written(paths: RunPaths) -> None:
    """By another size; by another time where the size is the same."""
    for name, text in (("train.py", "print(1)\n"), ("data/a.csv", "3,4\n")):
        path = os.path.join(paths.code, name)
        os.unlink(path)
        write(paths.code, name, text)
        taken = os.stat(paths.manifest).st_mtime_ns
        os.utime(path, ns=(taken + 10**9, taken + 10**9))
    assert [file.path for file in output_files(paths)] == ["train.py", "data/a.csv"]


@pytest.mark.parametrize("text", ["", "[]", '{"files": 1}', '{"files": {"a": 1}}'])
def test_without_a_manifest_everything_is(paths: RunPaths, text: str) -> None:
    with open(paths.manifest, "w") as file:
        file.write(text)
    assert [file.path for file in output_files(paths)] == ["train.py", "data/a.csv"]


def test_a_run_that_is_gone_has_written_nothing(tmp_path: Path) -> None:
    assert list(output_files(RunPaths(str(tmp_path / "none")))) == []


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("outputs/best/model.pt", None, True),
        ("outputs/best/model.pt", "*.pt", True),
        ("outputs/best/model.pt", "model.pt", True),
        ("outputs/best/model.pt", "outputs/best", True),
        ("outputs/best/model.pt", "outputs/best/", True),
        ("outputs/best/model.pt", "./outputs", True),
        ("outputs/best/model.pt", "best", False),
        ("outputs/best/model.pt", "*.csv", False),
    ],
)
def test_patterns(path: str, pattern: str | None, fits: bool) -> None:
    assert is_wanted(path, pattern) is fits


def test_a_copy_is_made_once_and_nothing_else_is_replaced(paths: RunPaths, tmp_path: Path) -> None:
    write(paths.code, "loss.csv", "0.5\n")
    (file,) = output_files(paths)
    target = Path(copy_output(paths, file, str(tmp_path / "to")))
    assert target.read_text() == "0.5\n"
    before = target.stat()
    assert copy_output(paths, file, str(tmp_path / "to")) == str(target) and target.stat() == before
    target.write_text("mine")
    with pytest.raises(StorageError, match="exists already, and differs"):
        copy_output(paths, file, str(tmp_path / "to"))
    assert target.read_text() == "mine"


def test_a_link_in_its_place_is_not_followed(paths: RunPaths, tmp_path: Path) -> None:
    write(paths.code, "loss.csv")
    (file,) = output_files(paths)
    place = os.path.join(paths.code, "loss.csv")
    os.unlink(place)
    os.symlink("/etc/passwd", place)
    with pytest.raises(StorageError):
        copy_output(paths, file, str(tmp_path / "to"))
    assert not (tmp_path / "to" / "loss.csv").exists()
