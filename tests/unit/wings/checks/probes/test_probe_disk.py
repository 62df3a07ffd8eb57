"""Room on disks: what is said of sizes, of full disks, and of those that refuse a write."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from recorded_node import node, row

from worldsize.state.check_rows import BAD, OK, WARNING
from worldsize.wings.checks.agent.probes import disk
from worldsize.wings.checks.agent.probes.disk import judge_inodes, judge_space, probe
from worldsize.wings.checks.agent.readers import disk_space
from worldsize.wings.checks.agent.readers.disk_space import Space, size_text, space_of, write_trial

GIB = 1 << 30


def refuse(monkeypatch: pytest.MonkeyPatch, directory: Path, number: int) -> None:
    """Writing below this directory fails from now on, and elsewhere it does not."""
    made: list[int] = []
    opened, written = os.open, os.write

    def open_file(path: str, flags: int, mode: int = 0o777) -> int:
        file = opened(path, flags, mode)
        if path.startswith(str(directory)):
            made.append(file)
        return file

    def write(file: int, data: bytes) -> int:
        if file in made:
            raise OSError(number, os.strerror(number))
        return written(file, data)

    monkeypatch.setattr(disk_space.os, "open", open_file)
    monkeypatch.setattr("worldsize.common.atomic_files.os.write", write)


@pytest.mark.parametrize(
    "space, verdict",
    [
        (Space(1000 * GIB, 500 * GIB), OK),
        (Space(100_000 * GIB, 900 * GIB), OK),
        (Space(10 * GIB, 700 << 20), OK),
        (Space(100 * GIB, 900 << 20), WARNING),
        (Space(100 * GIB, 0), WARNING),
        (Space(700 << 20, 20 << 20), WARNING),
        (Space(0, 0), OK),
    ],
)
def test_space(space: Space, verdict: str) -> None:
    assert judge_space(space).verdict == verdict


@pytest.mark.parametrize("free, total, verdict", [(900, 10**6, WARNING), (900, 1000, OK), (10**6, 10**9, OK)])
def test_inodes(free: int, total: int, verdict: str) -> None:
    found = judge_inodes(Space(GIB, GIB, total, free))
    assert found.verdict == verdict
    assert found.value == "%s free of %s" % (format(free, ","), format(total, ","))


def test_rows_of_a_node_that_is_well(tmp_path: Path) -> None:
    result = probe(node(tmp_path, environ={"TMPDIR": str(tmp_path)}))
    assert {each.id for each in result.rows} <= {"files.space", "files.inodes", "files.node_disk"}
    assert row(result, "files.space").value.count(" free of ") == 1
    assert row(result, "files.node_disk").value.startswith(str(tmp_path) + ": ")
    assert os.listdir(tmp_path / "run") == ["code"], "the file that was written on trial is gone"


@pytest.mark.parametrize("number, words", [(errno.ENOSPC, "No space left"), (errno.EDQUOT, "quota exceeded")])
def test_full_disk_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str) -> None:
    context = node(tmp_path, environ={"TMPDIR": str(tmp_path / "machine")})
    refuse(monkeypatch, tmp_path / "run", number)
    found = row(probe(context), "files.space")
    assert (found.verdict, words in found.value) == (BAD, True)
    assert "free some space" in found.hint
    assert os.listdir(tmp_path / "run") == ["code"]


@pytest.mark.parametrize("number, verdict", [(errno.ENOSPC, BAD), (errno.EIO, BAD), (errno.EROFS, WARNING)])
def test_disk_for_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, verdict: str) -> None:
    (tmp_path / "tmp").mkdir()
    context = node(tmp_path, environ={"TMPDIR": str(tmp_path / "tmp")})
    refuse(monkeypatch, tmp_path / "tmp", number)
    result = probe(context)
    assert row(result, "files.node_disk").verdict == verdict
    assert row(result, "files.space").verdict != BAD


def test_directory_for_copies_that_is_missing_is_made_later(tmp_path: Path) -> None:
    context = node(tmp_path, {"node_disk": str(tmp_path / "a" / "b")}, {"TMPDIR": str(tmp_path)})
    found = row(probe(context), "files.node_disk")
    assert (found.verdict == BAD, found.value.partition(":")[0]) == (False, str(tmp_path))


def test_directory_for_copies_that_is_somebody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").mkdir()
    context = node(tmp_path, {"node_disk": str(tmp_path / "disk")}, {"TMPDIR": str(tmp_path)})
    refuse(monkeypatch, tmp_path / "disk", errno.EACCES)
    assert row(probe(context), "files.node_disk").verdict == BAD


def test_missing_temporary_directory_is_no_certain_failure(tmp_path: Path) -> None:
    found = row(probe(node(tmp_path, environ={"TMPDIR": str(tmp_path / "none")})), "files.node_disk")
    assert (found.verdict, "TMPDIR" in found.hint) == (WARNING, True)


def test_disk_without_inodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = node(tmp_path, environ={"TMPDIR": str(tmp_path / "machine")})
    refuse(monkeypatch, tmp_path / "run", errno.ENOSPC)
    monkeypatch.setattr(disk, "space_of", lambda path: Space(GIB, GIB, 1000, 0))
    found = row(probe(context), "files.inodes")
    assert (found.verdict, found.value) == (BAD, "%s: 0 free of 1,000" % (tmp_path / "run"))


def test_run_directory_that_is_gone(tmp_path: Path) -> None:
    context = node(tmp_path)._replace(run_dir=str(tmp_path / "none"))
    found = row(probe(context), "files.space")
    assert (found.verdict, "No such file" in found.value) == (BAD, True)


def test_counts_that_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    huge = os.statvfs_result((4096, 4096, 2**63, 2**63, 2**63, 2**64 - 1, 2**64 - 1, 2**64 - 1, 0, 255))
    monkeypatch.setattr(disk_space.os, "statvfs", lambda path: huge)
    assert space_of(str(tmp_path)) == Space(0, 0, 0, 0)
    result = probe(node(tmp_path, environ={"TMPDIR": str(tmp_path)}))
    assert {each.verdict for each in result.rows} == {OK}


def test_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_space.os, "urandom", lambda count: b"\0" * count)
    monkeypatch.setattr(disk_space.os, "getpid", lambda: 1)
    (tmp_path / ("worldsize-check-1-" + "00" * 6).join((".", ""))).symlink_to(tmp_path / "victim")
    failed = write_trial(str(tmp_path))
    assert failed is not None and failed.errno == errno.EEXIST
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize(
    "count, text",
    [(0, "0 B"), (1023, "1023 B"), (65536 * 1024, "64 MiB"), (1.5 * GIB, "1.5 GiB"), (2.0**50, "1024 TiB")],
)
def test_sizes_in_words(count: float, text: str) -> None:
    assert size_text(count) == text
