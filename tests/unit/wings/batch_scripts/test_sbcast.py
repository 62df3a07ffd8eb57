"""`sbcast` on virtual nodes: a new file, never another's, never through a link."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from worldsize.wings.batch_scripts.agent.programs import sbcast


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "program"
    path.write_text("mine\n")
    path.chmod(0o755)
    os.utime(path, ns=(1, 10**18))
    return path


def test_a_copy(source: Path, tmp_path: Path) -> None:
    assert sbcast([str(source), str(tmp_path / "copy")]) == 0
    assert (tmp_path / "copy").read_text() == "mine\n"
    assert stat.S_IMODE((tmp_path / "copy").stat().st_mode) == 0o755
    assert (tmp_path / "copy").stat().st_mtime_ns != 10**18


@pytest.mark.parametrize(
    "words", [["-fp", "S", "T"], ["S", "-p", "T", "--force"], ["-C", "-j", "7", "-p", "--", "S", "T"]]
)
def test_options_wherever_they_stand(source: Path, tmp_path: Path, words: list[str]) -> None:
    names = {"S": str(source), "T": str(tmp_path / "copy")}
    assert sbcast([names.get(word, word) for word in words]) == 0
    assert (tmp_path / "copy").stat().st_mtime_ns == 10**18


@pytest.mark.parametrize("force", [[], ["-f"]])
@pytest.mark.parametrize("name", ["node", "node/", "link/"])
def test_a_directory_is_no_target(source: Path, tmp_path: Path, name: str, force: list[str]) -> None:
    """Found by review: another user's directory of the name was copied into, and then executed by the script."""
    (tmp_path / "node").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "node")
    assert sbcast([*force, str(source), "%s/%s" % (tmp_path, name)]) == 1
    assert os.listdir(tmp_path / "node") == [] and sorted(os.listdir(tmp_path)) == ["link", "node", "program"]


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_ones_own_file_is_replaced(source: Path, tmp_path: Path, force: list[str]) -> None:
    old, other = tmp_path / "copy", tmp_path / "second-name"
    old.write_text("old\n")
    os.link(old, other)
    assert sbcast([*force, str(source), str(old)]) == 0
    assert old.read_text() == "mine\n" and other.read_text() == "old\n"
    assert sorted(os.listdir(tmp_path)) == ["copy", "program", "second-name"]


def test_a_link_is_not_written_through(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Found by review: another user's link led to a file of the user's own, which the copy overwrote."""
    precious, link = tmp_path / "precious", tmp_path / "link"
    precious.write_text("precious")
    link.symlink_to(precious)
    assert sbcast([str(source), str(link)]) == 1
    assert capsys.readouterr().err == "sbcast: error: %s: File exists\n" % link
    assert link.is_symlink() and precious.read_text() == "precious"
    assert sbcast(["-f", str(source), str(link)]) == 0
    assert not link.is_symlink() and link.read_text() == "mine\n" and precious.read_text() == "precious"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["one"], "Need two file names, have 1 names"),
        (["a", "b", "c"], "Need two file names, have 3 names"),
        (["--nonsense", "a", "b"], "option --nonsense is not an option"),
        (["/no/such/file", "b"], "/no/such/file: No such file or directory"),
    ],
)
def test_what_it_refuses(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert sbcast(words) == 1
    assert capsys.readouterr().err == "sbcast: error: %s\n" % told
