"""A node's own copies: the plan as a node has it, directories that are safe and go away, copies that are whole."""

from __future__ import annotations

import errno
import os
import threading
import time
from pathlib import Path

import pytest

from worldsize.agent.copying import Stopped, copy_once
from worldsize.agent.local import Held, base_directory, own_directory, run_directory
from worldsize.plan.launch import Plan
from worldsize.plan.layout import node_major
from worldsize.plan.local import PLACE, Copy, Local, set_apart, settled


def never() -> bool:
    return False


def a_plan(local: Local | None) -> Plan:
    environment = {"WORLDSIZE_INPUT_X": PLACE + "/inputs/x", "LR": "0.1"}
    argv = ("python", "train.py", PLACE + "/inputs/x")
    return Plan("r", "t", "slurm", 1.0, 0, node_major(2, 1), argv, environment, local=local)


def test_only_the_node_knows_the_place() -> None:
    plan = set_apart(a_plan(Local(copies=(Copy("x", "/data/x", "inputs/x"),))))
    assert plan.environment == {"LR": "0.1"}
    there = settled(plan, "/scratch/worldsize-7/runs/r.0")
    assert there.argv[-1] == there.environment["WORLDSIZE_INPUT_X"] == "/scratch/worldsize-7/runs/r.0/inputs/x"
    assert there.environment["WORLDSIZE_LOCAL_DIR"] == "/scratch/worldsize-7/runs/r.0"
    assert there.environment["LR"] == "0.1"


def test_a_plan_without_copies_stays_as_it_is() -> None:
    plan = a_plan(None)
    assert set_apart(plan) is plan and settled(plan, "/x") is plan


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
    own = own_directory(str(tmp_path))
    assert os.stat(own).st_mode & 0o777 == 0o700 and own_directory(str(tmp_path)) == own
    os.chmod(own, 0o777)
    with pytest.raises(PermissionError):
        own_directory(str(tmp_path))
    os.rmdir(own)
    os.mkdir(tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", own)
    with pytest.raises(PermissionError):
        own_directory(str(tmp_path))


def test_the_last_one_removes_it(tmp_path: Path) -> None:
    first, second = (run_directory(str(tmp_path), "r", 0) for _ in range(2))
    (Path(first.path) / "file").write_text("x")
    first.release()
    first.release()
    assert os.listdir(second.path) == ["file"]
    second.release()
    assert os.listdir(os.path.dirname(second.path)) == []


def test_what_dead_runs_left_goes_with_the_next(tmp_path: Path) -> None:
    dead, living, young = (run_directory(str(tmp_path), name, 0) for name in ("dead", "living", "young"))
    for held in (dead, young):
        os.close(held._file)  # as the kernel does with a process that is killed
    for held in (dead, living):
        os.utime(held.path + ".lock", (1, 1))
    run_directory(str(tmp_path), "next", 0)
    left = {name for name in os.listdir(os.path.dirname(dead.path)) if not name.endswith(".lock")}
    assert left == {"living.0", "young.0", "next.0"}
    assert isinstance(living, Held)


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

    with pytest.raises(Stopped):
        copy_once(str(source), str(tmp_path / "node" / "x"), soon)
    with pytest.raises(FileNotFoundError) as missing:
        copy_once(str(tmp_path / "nothing"), str(tmp_path / "node" / "x"), never)
    assert missing.value.errno == errno.ENOENT
    assert os.listdir(tmp_path / "node") == ["x.lock"]
