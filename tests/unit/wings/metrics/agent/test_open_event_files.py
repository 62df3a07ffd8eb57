from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from worldsize.wings.metrics.agent import tensorboard_files
from worldsize.wings.metrics.agent.tensorboard_files import OpenEventFiles

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has /proc")
NAME = "events.out.tfevents.1764224000.node1"


class Proc:
    """A /proc of links alone; the kernel's links have modes, these have not: what is read-only is named."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.read_only: set[str] = set()
        monkeypatch.setattr(tensorboard_files, "_is_for_writing", lambda link: link not in self.read_only)

    def add(self, pid: int, *paths: str) -> None:
        for number, path in enumerate(paths, 3):
            link = self.root / str(pid) / "fd" / str(number)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(path)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    return Proc(tmp_path, monkeypatch)


def test_each_file_is_told_once_with_its_rank(proc: Proc) -> None:
    proc.add(10, "/dev/null", "/tb/a/" + NAME)
    proc.add(11, "pipe:[77]", "/tb/b/" + NAME)
    proc.add(12, "/tb/b/" + NAME)  # a worker of the second rank inherits the file
    files = OpenEventFiles(str(proc.root))
    trees = {0: [10], 1: [11, 12]}
    assert files.look(trees) == [("/tb/a/" + NAME, 0), ("/tb/b/" + NAME, 1)]
    assert files.look(trees) == []
    proc.add(10, "/dev/null", "/tb/c/" + NAME)
    assert files.look(trees) == [("/tb/c/" + NAME, 0)]


def test_what_is_no_event_file_of_a_writer_is_left_out(proc: Proc) -> None:
    proc.add(10, "/tb/%s (deleted)" % NAME, "/tfevents/data", "/tb/" + NAME, "anon_inode:tfevents")
    proc.read_only.add(str(proc.root / "10" / "fd" / "5"))
    assert OpenEventFiles(str(proc.root)).look({0: [10]}) == []


def test_processes_that_have_ended_and_nothing_at_all(proc: Proc) -> None:
    files = OpenEventFiles(str(proc.root))
    assert files.look({}) == [] == files.look({0: [99], 1: []})


def test_a_look_is_bounded_and_the_next_goes_on(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard_files, "MOST_DESCRIPTORS", 6)
    for pid in range(20, 30):
        proc.add(pid, "/dev/null", "/dev/null", "/tb/%d/%s" % (pid, NAME))
    files = OpenEventFiles(str(proc.root))
    trees = {pid: [pid] for pid in range(20, 30)}
    looks = [files.look(trees) for _ in range(6)]
    assert [len(found) for found in looks] == [2, 2, 2, 2, 2, 0]
    assert sorted(rank for found in looks for _, rank in found) == list(range(20, 30))


def test_the_number_of_files_is_bounded(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard_files, "MOST_FILES", 2)
    files = OpenEventFiles(str(proc.root))
    for pid in (1, 2, 3):
        proc.add(pid, "/tb/%d/%s" % (pid, NAME))
    assert len(files.look({0: [1, 2, 3]})) == 2 and files.look({0: [1, 2, 3]}) == []


@linux
def test_the_kernel_tells_readers_from_writers(tmp_path: Path) -> None:
    path = tmp_path / NAME
    with open(path, "wb"), open(path, "rb"):
        assert OpenEventFiles().look({4: [os.getpid()]}) == [(str(path), 4)]
    with open(path, "rb"):
        assert OpenEventFiles().look({4: [os.getpid()]}) == []
    with open(path, "ab"):
        path.unlink()
        assert OpenEventFiles().look({4: [os.getpid()]}) == []
