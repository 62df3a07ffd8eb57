"""An element's own directories: what it copies of its array's, and what it only names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.agent.startup.array_element import complete_element
from worldsize.plan.run_paths import RunPaths


@pytest.fixture
def array(tmp_path: Path) -> RunPaths:
    paths = RunPaths(str(tmp_path / "r"))
    for directory in paths.common_directories():
        os.makedirs(directory)
    return paths


def made(array: RunPaths) -> Path:
    complete_element(array, RunPaths(array.root + "/r_0"))
    return Path(array.root, "r_0")


@pytest.mark.parametrize("directory", ["outputs", "user_logs", "code"])
def test_links_stay_links(array: RunPaths, tmp_path: Path, directory: str) -> None:
    """Found by review: what another user's link in `outputs` led to was copied, and `share: group` opened it."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "notes.txt").write_text("secret")
    place = Path(array.root, directory)
    (place / "deep").mkdir()
    links = {"all": "private", "one": "private/notes.txt", "deep/all": "private", "gone": "nowhere"}
    for name, target in links.items():
        (place / name).symlink_to(tmp_path / target)
    (place / "loop").symlink_to(".")
    element = made(array) / directory
    for name, target in links.items():
        assert os.readlink(element / name) == str(tmp_path / target)
    assert os.readlink(element / "loop") == "."


def test_what_is_the_arrays_alone_is_not_copied(array: RunPaths) -> None:
    """Such files are replaced while elements start."""
    for name in ("trials.csv", "trials.csv.0815.tmp", "best.json", "best.json.example"):
        Path(array.outputs, name).write_text("1")
    complete_element(array, RunPaths(array.root + "/r_0"), ("trials.csv", "best.json"))
    assert os.listdir(array.root + "/r_0/outputs") == ["best.json.example"]


def test_what_is_written_to_is_copied(array: RunPaths) -> None:
    Path(array.outputs, "deep").mkdir()
    Path(array.outputs, "deep", "model.pt").write_text("1")
    Path(array.code, "train.py").write_text("2")
    element = made(array)
    copied, linked = element / "outputs/deep/model.pt", element / "code/train.py"
    assert (copied.read_text(), linked.read_text()) == ("1", "2")
    assert copied.stat().st_nlink == 1 and os.readlink(element / "code/outputs") == "../outputs"
