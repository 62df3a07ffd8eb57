"""Files that are seen whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import stat
import threading

import pytest

from worldsize.common import atomic_files


def test_written_whole_private_and_nothing_left_beside(tmp_path):
    path = str(tmp_path / "a.json")
    atomic_files.write_json(path, {"name": "é\n", "raw": os.fsdecode(b"\xff")})
    assert atomic_files.read_json(path) == {"name": "é\n", "raw": "\udcff"}
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    atomic_files.write_text(path, "\udcffend")
    assert open(path, "rb").read() == b"\xffend"
    assert os.listdir(tmp_path) == ["a.json"]


def test_missing_file_reads_as_none(tmp_path):
    assert atomic_files.read_json(str(tmp_path / "no.json")) is None


def test_write_once_has_one_winner_among_many(tmp_path):
    path = str(tmp_path / "result.json")
    wins: list[int] = []
    gate = threading.Barrier(16)

    def race(number: int) -> None:
        gate.wait()
        if atomic_files.write_once(path, {"by": number}):
            wins.append(number)

    threads = [threading.Thread(target=race, args=(n,)) for n in range(16)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert len(wins) == 1
    assert atomic_files.read_json(path) == {"by": wins[0]}
    assert not atomic_files.write_once(path, {"by": "late"})
    assert os.listdir(tmp_path) == ["result.json"]


def test_write_once_without_hard_links(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    path = str(tmp_path / "result.json")
    assert atomic_files.write_once(path, 1) and not atomic_files.write_once(path, 2)
    assert atomic_files.read_json(path) == 1
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".tmp")]


def test_a_full_disk_is_an_oserror_and_leaves_the_old_file(tmp_path, monkeypatch):
    path = str(tmp_path / "a.json")
    atomic_files.write_json(path, 1)

    def full(*args):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError) as caught:
        atomic_files.write_json(path, 2)
    monkeypatch.undo()
    assert caught.value.errno == errno.ENOSPC
    assert json.load(open(path)) == 1
    assert os.listdir(tmp_path) == ["a.json"]
    said = atomic_files.storage_error(caught.value, path)
    assert "No space left" in said.what and said.where == path and "prune" in (said.hint or "")


def test_paths_are_shown_without_control_characters():
    assert atomic_files.printable_text("/a b/é") == "/a b/é"
    assert atomic_files.printable_text("/a\n\udcff") == "/a\\n\\udcff"


@pytest.mark.parametrize("size", [0, 10, 4096])
def test_reserved_bytes_are_written_over_and_gone(tmp_path, size):
    reserved, path, value = str(tmp_path / "spare"), str(tmp_path / "result"), {"message": "x" * 50}
    with open(reserved, "wb") as file:
        file.write(b"\n" * size)
    assert atomic_files.write_once(path, value, reserved)
    assert atomic_files.read_json(path) == value and os.listdir(tmp_path) == ["result"]
    with open(reserved, "wb") as file:
        file.write(b"\n" * size)
    assert not atomic_files.write_once(path, {"other": 1}, reserved)
    assert atomic_files.read_json(path) == value and os.listdir(tmp_path) == ["result"]


def test_reserved_bytes_need_no_new_ones(tmp_path):
    reserved = str(tmp_path / "spare")
    with open(reserved, "wb") as file:
        file.write(b"\n" * 4096)
    taken = os.stat(reserved).st_ino
    assert atomic_files.write_once(str(tmp_path / "result"), {"a": 1}, reserved)
    assert os.stat(tmp_path / "result").st_ino == taken


def test_only_regular_files_are_read(tmp_path):
    """None of the others is waited for, nor left open."""
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    before = os.listdir("/proc/self/fd")
    assert atomic_files.read_file(str(tmp_path / "link"), 2) == b"te"
    for irregular in (str(tmp_path / "pipe"), os.devnull):
        with pytest.raises(OSError, match="not a regular file") as refused:
            atomic_files.open_regular_file(irregular)
        assert refused.value.filename == irregular
    with pytest.raises(IsADirectoryError):
        atomic_files.read_file(str(tmp_path))
    assert os.listdir("/proc/self/fd") == before


def test_the_tail_of_a_file(tmp_path):
    path = str(tmp_path / "log")
    assert atomic_files.read_tail(path, 4) == b""
    with open(path, "wb") as file:
        file.write(b"0123456789")
    assert atomic_files.read_tail(path, 4) == b"6789"
    assert atomic_files.read_tail(path, 40) == b"0123456789"
    os.mkfifo(str(tmp_path / "pipe"))
    assert atomic_files.read_tail(str(tmp_path / "pipe"), 4) == b""


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '"x"'])
def test_what_is_no_json_object_is_an_empty_one(tmp_path, text):
    path = str(tmp_path / "value")
    assert atomic_files.read_object(path) == {}
    with open(path, "w") as file:
        file.write(text)
    assert atomic_files.read_object(path) == {}
    atomic_files.write_json(path, {"a": 1})
    assert atomic_files.read_object(path) == {"a": 1}
