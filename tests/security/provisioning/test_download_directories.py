"""Directories that a build's downloads are unpacked into, where others may make files too."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from security.people import BEN, Machine

from worldsize.errors import BuildError, StorageError
from worldsize.jobspec.environment import FetchStep
from worldsize.wings.environments.native.sources import fetch_downloads
from worldsize.wings.environments.workspace.builder import Build

GOOD = "good"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "nccl.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        info = tarfile.TarInfo("nccl/libnccl.so")
        info.size = len(GOOD)
        file.addfile(info, io.BytesIO(GOOD.encode()))
    return path


def fetch(tmp_path: Path, archive: Path, target: str) -> str:
    """What lies in the place of the library then."""
    place = tmp_path / "env"
    place.mkdir(exist_ok=True)
    wanted = FetchStep(str(archive), hashlib.sha256(archive.read_bytes()).hexdigest(), target)
    fetch_downloads(Build(str(place), lambda what: None), [wanted], str(tmp_path / "cache"), os.environ)
    return Path(target, "nccl", "libnccl.so").read_text()


def put(target: str, content: str) -> None:
    """The same names, by somebody else."""
    os.mkdir(target + "/nccl")
    Path(target, "nccl", "libnccl.so").write_text(content)
    for path in (target + "/nccl", target + "/nccl/libnccl.so"):
        os.chown(path, BEN, BEN)


def test_what_is_there_is_not_unpacked_again(tmp_path: Path, archive: Path, machine: Machine) -> None:
    target = machine.directory(0o1777)
    assert fetch(tmp_path, archive, target) == GOOD
    Path(target, "nccl", "libnccl.so").write_text("mine, by now")
    assert fetch(tmp_path, archive, target) == "mine, by now"
    shutil.rmtree(target + "/nccl")
    assert fetch(tmp_path, archive, target) == GOOD


def test_a_name_that_is_somebody_elses_by_now(tmp_path: Path, archive: Path, machine: Machine) -> None:
    """Found by review: what was unpacked had been removed, as /tmp is cleaned, and another made the same names."""
    target = machine.directory(0o1777)
    assert fetch(tmp_path, archive, target) == GOOD
    shutil.rmtree(target + "/nccl")
    put(target, "evil")
    with pytest.raises(BuildError, match="exists already"):
        fetch(tmp_path, archive, target)


def test_a_link_that_is_somebody_elses_by_now(tmp_path: Path, archive: Path, machine: Machine) -> None:
    """Found by review: the same with a link, even to a directory of one's own."""
    target, away = machine.directory(0o1777), machine.directory(0o1777)
    assert fetch(tmp_path, archive, target) == GOOD
    os.rename(target + "/nccl", away + "/nccl")
    os.symlink(away + "/nccl", target + "/nccl")
    os.chown(target + "/nccl", BEN, BEN, follow_symlinks=False)
    with pytest.raises(BuildError, match="exists already"):
        fetch(tmp_path, archive, target)


@pytest.mark.parametrize(
    ("mode", "uid", "gid"), [(0o777, 0, 0), (0o775, 0, BEN), (0o755, BEN, BEN), (0o1777, BEN, BEN)]
)
def test_a_place_where_others_could_replace_what_is_unpacked(
    tmp_path: Path, archive: Path, machine: Machine, mode: int, uid: int, gid: int
) -> None:
    """Found by review: who may write to it was never asked."""
    target = machine.directory(mode, uid, gid)
    with pytest.raises(StorageError, match=r"may write to it|belongs to"):
        fetch(tmp_path, archive, target)
    assert os.listdir(target) == []


def test_a_place_of_ones_own(tmp_path: Path, archive: Path, machine: Machine) -> None:
    assert fetch(tmp_path, archive, machine.directory(0o755) + "/new/er") == GOOD
