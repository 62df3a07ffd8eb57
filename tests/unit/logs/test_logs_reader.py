"""A rank's log, read while it grows."""

from __future__ import annotations

import gc
import os
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.errors import StorageError
from worldsize.logs.reader import RankLog, file_size
from worldsize.logs.text import BOUND, MORE


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "rank-00000.log")


def append(path, data):
    with open(path, "ab") as file:
        file.write(data)


def has_unread(log):
    """Whether the last look saw more than has been read."""
    return os.path.getsize(log.path) > log.offset


def test_a_file_that_is_not_there_yet(path):
    log = RankLog(path)
    assert log.read() == []
    append(path, b"hello\n")
    assert log.read() == ["hello"]
    assert log.read() == []


def test_a_line_waits_for_its_end(path):
    log = RankLog(path)
    append(path, b"one\ntw")
    assert log.read() == ["one"]
    append(path, b"o\n\nthree")
    assert log.read() == ["two", ""]
    assert log.close() == ["three"]
    assert log.close() == []


def test_a_character_cut_by_a_read(path):
    append(path, "é✓\n".encode() * 3)
    log = RankLog(path)
    lines = []
    for _ in range(20):
        lines += log.read(limit=1)
    assert lines == ["é✓"] * 3


def test_reads_are_bounded(path):
    append(path, b"0123456\n" * 1000)
    log = RankLog(path)
    assert len(log.read(limit=80)) == 10
    assert has_unread(log)
    assert len(log.read(limit=8 << 10)) == 990
    assert not has_unread(log)


def test_a_ten_megabyte_line_is_never_held(path):
    append(path, b"x" * (10 << 20))
    log = RankLog(path)
    pieces = []
    while not pieces or has_unread(log):
        pieces += log.read()
        assert len(log._partial) <= BOUND
    append(path, b"yz\nnext\n")
    pieces += log.read()
    assert pieces[-1] == "next"
    assert all(piece.endswith(MORE) for piece in pieces[:-2])
    assert "".join(pieces[:-1]).replace(MORE, "") == "x" * (10 << 20) + "yz"


def test_a_file_that_was_truncated_is_read_from_its_start(path):
    append(path, b"first line\nhalf")
    log = RankLog(path)
    assert log.read() == ["first line"]
    with open(path, "wb") as file:
        file.write(b"new\n")
    assert log.read() == ["half", "new"]


def test_a_file_that_went_away_and_came_back(path):
    append(path, b"first line\n")
    log = RankLog(path)
    assert log.read() == ["first line"]
    os.unlink(path)
    assert log.read() == []
    append(path, b"new\n")
    assert log.read() == ["new"]


def test_only_the_last_state_of_a_progress_bar_is_shown(path):
    log = RankLog(path)
    for percent in range(100):
        append(path, b"\r%d%%" % percent)
        assert log.read(now=percent / 1000) == []
    append(path, b"\r100%\ndone\n")
    assert log.read(now=0.2) == ["100%", "done"]


def test_a_progress_bar_is_not_held_for_ever(path):
    log = RankLog(path)
    append(path, b"before\n\r10%\r20%")
    assert log.read(now=5.0) == ["before"]
    assert log.read(now=5.5) == []
    assert log.read(now=6.1) == ["20%"]
    assert log.read(now=8.0) == [], "the same state is not shown twice"
    append(path, b"\r30%\r")
    assert log.read(now=8.1) == ["30%"]
    append(path, b"40%")
    assert log.read(now=8.2) == [], "at most once a second"
    append(path, b"\r100%")
    assert log.read(now=9.5) == ["100%"]
    append(path, b"\nafter\n")
    assert log.read(now=9.6) == ["after"]


def test_a_progress_bar_does_not_fill_memory(path):
    log = RankLog(path)
    for _ in range(4):
        append(path, b"\r 10%|####      |" * 65536)
        while log.read() or has_unread(log):
            assert len(log._partial) < 100
    assert log.close() == [" 10%|####      |"]


def test_a_log_that_cannot_be_read_is_an_error_with_its_path(tmp_path):
    os.mkdir(tmp_path / "rank-00001.log")
    log = RankLog(str(tmp_path / "rank-00001.log"))
    with pytest.raises(StorageError, match=r"rank-00001\.log: cannot read the log"):
        log.read()


@pytest.mark.heavy
def test_no_descriptor_stays_open(path):
    append(path, b"a\n")
    logs = [RankLog(path) for _ in range(50)]
    gc.collect()  # what the tests before have left is not closed meanwhile
    before = len(os.listdir("/proc/self/fd"))
    assert all(log.read() == ["a"] for log in logs)
    assert len(os.listdir("/proc/self/fd")) == before


def test_bytes_as_they_are(path):
    append(path, b"\x1b[2J\xff\r\0")
    log = RankLog(path)
    assert log.read_bytes() == b"\x1b[2J\xff\r\0"
    assert log.read_bytes() == b""


@given(st.lists(st.binary(max_size=20) | st.sampled_from([b"\n", b"\r", b"\r\n", b"\x1b[1m"]), max_size=20), st.data())
def test_the_lines_do_not_depend_on_how_the_bytes_came(tmp_path_factory, portions, data):
    path = str(tmp_path_factory.mktemp("log") / "log")
    pieces = RankLog(path)
    got = []
    for portion in portions:
        append(path, portion)
        for _ in range(len(portion) + 1):
            got += pieces.read(limit=data.draw(st.integers(1, 30)))
    whole = RankLog(path)
    assert got + pieces.close() == whole.read() + whole.close()


@pytest.mark.parametrize("content", [None, b"started\n"], ids=["missing", "quiet"])
def test_looking_at_a_quiet_file_costs_one_look_at_its_size(path, content):
    if content:
        append(path, content)
    log = RankLog(path)
    log.read()
    assert system_calls(log.read) == system_calls(lambda: file_size(path)) != []


def system_calls(function):
    """The names of the functions of the operating system and of input and output that a call makes."""
    names = []

    def note(frame, event, called):
        if event == "c_call" and getattr(called, "__module__", None) in ("posix", "_io", "io"):
            names.append(called.__name__)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return names
