"""A node's own copies: the plan as a node has it, directories that are safe and go away, copies that are whole."""

from __future__ import annotations

import errno
import os
import resource
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from worldsize.plan.node_disk import DIRECTORY_MARK, InputCopy, NodeDiskPlan, resolve_placeholders, with_local_variables
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.wings.provisioning.agent import copy
from worldsize.wings.provisioning.agent.copy import PreparationStopped, copy_once
from worldsize.wings.provisioning.agent.directory import (
    HeldDirectory,
    base_directory,
    ensure_own_directory,
    hold_run_directory,
)


def never() -> bool:
    return False


def a_plan(local: NodeDiskPlan | None) -> Plan:
    environment = {"WORLDSIZE_INPUT_X": DIRECTORY_MARK + "/inputs/x", "LR": "0.1"}
    argv = ("python", "train.py", DIRECTORY_MARK + "/inputs/x")
    return Plan("r", "t", "slurm", 1.0, 0, node_major_layout(2, 1), argv, environment, local=local)


def test_only_the_node_knows_the_place() -> None:
    plan = with_local_variables(a_plan(NodeDiskPlan(copies=(InputCopy("x", "/data/x", "inputs/x"),))))
    assert plan.environment == {"LR": "0.1"}
    there = resolve_placeholders(plan, "/scratch/worldsize-7/runs/r.0")
    assert there.argv[-1] == there.environment["WORLDSIZE_INPUT_X"] == "/scratch/worldsize-7/runs/r.0/inputs/x"
    assert there.environment["WORLDSIZE_LOCAL_DIR"] == "/scratch/worldsize-7/runs/r.0"
    assert there.environment["LR"] == "0.1"


def test_a_plan_without_copies_stays_as_it_is() -> None:
    plan = a_plan(None)
    assert with_local_variables(plan) is plan and resolve_placeholders(plan, "/x") is plan


def test_the_node_says_where(tmp_path: Path) -> None:
    first, second, third = (str(tmp_path / name) for name in ("first", "second", "third"))
    for path in (first, second, third):
        os.mkdir(path)
    said = {"WORLDSIZE_LOCAL_DIR": first, "SLURM_TMPDIR": second, "TMPDIR": third, "JOB": "second"}
    assert base_directory("%s/$JOB" % tmp_path, said) == first
    del said["WORLDSIZE_LOCAL_DIR"]
    assert base_directory("%s/${JOB}" % tmp_path, said) == second
    assert base_directory("%s/$UNKNOWN" % tmp_path, {**said, "SLURM_TMPDIR": third}) == third
    assert base_directory("", {"TMPDIR": third}) == third
    assert base_directory("", {}) == "/tmp"
    with pytest.raises(NotADirectoryError):
        base_directory("", {"TMPDIR": str(tmp_path / "gone")})


def test_a_directory_that_others_could_change_is_refused(tmp_path: Path) -> None:
    own = ensure_own_directory(str(tmp_path))
    assert os.stat(own).st_mode & 0o777 == 0o700 and ensure_own_directory(str(tmp_path)) == own
    os.chmod(own, 0o777)
    with pytest.raises(PermissionError):
        ensure_own_directory(str(tmp_path))
    os.rmdir(own)
    os.mkdir(tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", own)
    with pytest.raises(PermissionError):
        ensure_own_directory(str(tmp_path))


def test_the_last_one_removes_it(tmp_path: Path) -> None:
    first, second = (hold_run_directory(str(tmp_path), "r", 0) for _ in range(2))
    (Path(first.path) / "file").write_text("x")
    first.release()
    first.release()
    assert os.listdir(second.path) == ["file"]
    second.release()
    assert os.listdir(os.path.dirname(second.path)) == []


def test_what_dead_runs_left_goes_with_the_next(tmp_path: Path) -> None:
    dead, living, young = (hold_run_directory(str(tmp_path), name, 0) for name in ("dead", "living", "young"))
    for held in (dead, young):
        os.close(held._file)  # as the kernel does with a process that is killed
    for held in (dead, living):
        os.utime(held.path + ".lock", (1, 1))
    hold_run_directory(str(tmp_path), "next", 0)
    left = {name for name in os.listdir(os.path.dirname(dead.path)) if not name.endswith(".lock")}
    assert left == {"living.0", "young.0", "next.0"}
    assert isinstance(living, HeldDirectory)


def a_folder(path: Path) -> Path:
    (path / "deep" / "er").mkdir(parents=True)
    (path / "deep" / "er" / "big").write_bytes(os.urandom(100_000))
    (path / "run.sh").write_text("#!/bin/sh\n")
    (path / "run.sh").chmod(0o555)
    os.symlink("deep/er/big", path / "link")
    os.symlink("/nowhere", path / "away")
    for number in range(50):
        (path / ("file%d" % number)).write_text(str(number))
    return path


def test_a_folder_is_copied_as_it_is(tmp_path: Path) -> None:
    source, target = a_folder(tmp_path / "source"), tmp_path / "node" / "inputs" / "x"
    copy_once(str(source), str(target), never)
    assert sorted(os.listdir(target)) == sorted(os.listdir(source))
    assert (target / "deep/er/big").read_bytes() == (source / "deep/er/big").read_bytes()
    assert os.readlink(target / "link") == "deep/er/big" and os.readlink(target / "away") == "/nowhere"
    assert (target / "run.sh").stat().st_mode & 0o777 == 0o755
    assert (target / "file7").stat().st_mtime_ns == (source / "file7").stat().st_mtime_ns


def test_two_agents_copy_once(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.write_bytes(b"x" * (40 << 20))
    target = tmp_path / "node" / "data"
    threads = [threading.Thread(target=copy_once, args=(str(source), str(target), never)) for _ in range(4)]
    for thread in threads:
        thread.start()
    inodes = set()
    for thread in threads:
        thread.join()
        inodes.add(target.stat().st_ino)
    assert len(inodes) == 1 and target.stat().st_size == 40 << 20
    assert sorted(os.listdir(target.parent)) == ["data", "data.lock"]


def test_a_copy_that_is_stopped_or_fails_leaves_nothing(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "source")
    asked: list[float] = []

    def soon() -> bool:
        asked.append(time.monotonic())
        return len(asked) > 10

    with pytest.raises(PreparationStopped):
        copy_once(str(source), str(tmp_path / "node" / "x"), soon)
    with pytest.raises(FileNotFoundError) as missing:
        copy_once(str(tmp_path / "nothing"), str(tmp_path / "node" / "x"), never)
    assert missing.value.errno == errno.ENOENT
    assert os.listdir(tmp_path / "node") == ["x.lock"]


class Listed:
    """As `os.scandir` of a directory that somebody changes meanwhile: `change` is called once all was listed, and then
    all is listed again; a file system may do so with what is made anew under an old name."""

    def __init__(self, change: Callable[[], None]) -> None:
        self._scandir = os.scandir
        self._change = change
        self.changed = False

    @contextmanager
    def __call__(self, place: int | str) -> Iterator[Iterator[os.DirEntry[str]]]:
        yield self._entries(place)

    def _entries(self, place: int | str) -> Iterator[os.DirEntry[str]]:
        with self._scandir(place) as entries:
            yield from list(entries)
        if not self.changed:
            self.changed = True
            self._change()
            with self._scandir(place) as entries:
                yield from list(entries)


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    """A directory that is no part of the input."""
    path = tmp_path / "precious"
    path.mkdir()
    (path / "x").write_text("mine")
    return path


@pytest.mark.parametrize("what", ["file", "directory"])
def test_nothing_is_written_through_a_link_of_the_input(
    tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Found by review: a name that was a link, and then a file, was first copied as a link and then written through."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "x").symlink_to(precious / "x" if what == "file" else precious)

    def change() -> None:
        (source / "x").unlink()
        if what == "file":
            (source / "x").write_text("theirs")
        else:
            (source / "x").mkdir()
            (source / "x" / "x").write_text("theirs")

    monkeypatch.setattr(os, "scandir", Listed(change))
    with pytest.raises(OSError, match="changed while it was copied") as caught:
        copy_once(str(source), str(tmp_path / "node" / "x"), never)
    assert caught.value.filename == str(source / "x")
    monkeypatch.undo()
    assert (precious / "x").read_text() == "mine" and os.listdir(precious) == ["x"]
    assert os.listdir(tmp_path / "node") == ["x.lock"]


@pytest.mark.parametrize("what", ["file", "directory"])
def test_nothing_is_read_through_a_link_of_another_time(
    tmp_path: Path, precious: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """What was listed as a file or a directory, and is a link by now, leads nowhere."""
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "words").write_text("theirs")
    name = "words" if what == "file" else "sub"
    opened = copy._Folder.open

    def late(folder: Any, name_: str, flags: int = 0) -> int:
        if name_ == name:
            (source / name).rename(tmp_path / "aside")
            (source / name).symlink_to(precious / "x" if what == "file" else precious)
        return opened(folder, name_, flags)

    monkeypatch.setattr(copy._Folder, "open", late)
    with pytest.raises(OSError, match="changed while it was copied"):
        copy_once(str(source), str(tmp_path / "node" / "x"), never)


def test_a_deep_and_wide_folder_needs_few_descriptors(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for number in range(400):
        (source / str(number)).mkdir(parents=True)
        (source / str(number) / "x").write_text(str(number))
    deep = source
    for _ in range(300):
        deep = deep / "d"
    deep.mkdir(parents=True)
    (deep / "x").write_text("deep")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 200, before[1]))
    try:
        copy_once(str(source), str(tmp_path / "node"), never)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert sorted(os.listdir(tmp_path / "node")) == sorted(os.listdir(source))
    assert (tmp_path / "node" / deep.relative_to(source) / "x").read_text() == "deep"


def test_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    source = a_folder(tmp_path / "source")
    os.mkfifo(source / "pipe")
    copy_once(str(source), str(tmp_path / "node" / "x"), never)
    assert "pipe" not in os.listdir(tmp_path / "node" / "x")
    with pytest.raises(OSError, match="not a regular file"):
        copy_once(str(source / "pipe"), str(tmp_path / "node" / "y"), never)
