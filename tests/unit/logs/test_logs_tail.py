"""The end of a log, and what the others said last."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.logs import tail
from worldsize.logs.tail import last_lines, read_text, summarize_others, tail_offset
from worldsize.plan.run_paths import RunPaths


def put(path, data):
    with open(path, "wb") as file:
        file.write(data)


@given(st.lists(st.sampled_from([b"", b"a", b"line", b"x" * 40_000]), max_size=12), st.integers(0, 15), st.booleans())
def test_the_last_lines_are_those_of_the_whole_file(tmp_path_factory, lines, n, ended):
    path = str(tmp_path_factory.mktemp("log") / "log")
    data = b"\n".join(lines) + (b"\n" if ended and lines else b"")
    put(path, data)
    whole = data.decode().split("\n")
    if whole[-1] == "":
        whole.pop()
    assert last_lines(path, n) == (whole[-n:] if n else [])
    tail = data[tail_offset(path, n) :].decode()
    assert tail.removesuffix("\n").split("\n") == (whole[-n:] or [""] if n else [""])


def test_only_the_end_is_read(tmp_path):
    """A sparse file of 4 TiB: reading it whole would never end."""
    path = str(tmp_path / "log")
    with open(path, "wb") as file:
        file.truncate(1 << 42)
        file.seek(0, os.SEEK_END)
        file.write(b"\none\ntwo\nthree")
    assert last_lines(path, 2) == ["two", "three"]
    assert last_lines(path, 50, max_bytes=100)[1:] == ["one", "two", "three"]


def test_what_is_shown_is_safe_and_bounded(tmp_path):
    path = str(tmp_path / "log")
    put(path, b"start\n" + b"y" * 5000 + b"\x1b[2J\r50%\r100%\n\xff\n")
    assert last_lines(path, 2) == ["100%", "�"]
    assert sum(map(len, last_lines(path, 10, max_bytes=1000))) <= 1000


def test_no_file(tmp_path):
    path = str(tmp_path / "none")
    assert last_lines(path, 5) == []
    assert tail_offset(path, 5) == 0
    assert read_text(path) == ""


def test_the_whole_text_is_as_the_rank_wrote_it(tmp_path):
    put(tmp_path / "log", b"a\r\n\x1b[2J\xff")
    assert read_text(str(tmp_path / "log")) == "a\r\n\x1b[2J�"


@pytest.fixture
def paths(tmp_path):
    paths = RunPaths(str(tmp_path))
    os.makedirs(paths.logs_dir)
    return paths


def test_the_others_last_words_are_folded(paths):
    for rank in (0, 1, 2, 5):
        put(paths.rank_log(rank), b"step 1\n[rank%d]: RuntimeError: Connection closed by peer\n\n" % rank)
    put(paths.rank_log(3), b"ValueError: the culprit\n")
    put(paths.rank_log(4), b"training\n")
    put(paths.rank_log(6), b"\n \n")
    assert summarize_others(paths, range(8), exclude=[3]) == [
        'ranks 0-2,5: "[rank{0..5}]: RuntimeError: Connection closed by peer"',
        "ranks 6,7: no output",
        'rank 4: "training"',
    ]
    assert summarize_others(paths, range(8), exclude=[3], limit=1)[1:] == ["3 more ranks have other output"]


@pytest.mark.parametrize(("sizes", "last"), [((0, 8), ["two"]), ((8, 0), [])], ids=["grows", "is emptied"])
def test_a_log_whose_size_changes_between_two_looks(tmp_path, monkeypatch, sizes, last):
    """Found by chance: the end of a log that grew meanwhile "could not be read: Invalid argument"."""
    log = tmp_path / "log"
    log.write_bytes(b"one\ntwo\n"[: sizes[-1]])
    told = iter(sizes)
    monkeypatch.setattr(tail, "file_size", lambda path: next(told, sizes[-1]))
    assert tail.last_lines(str(log), 1) in (last, [])
