"""The file of what a rank logs: whole lines, a bounded queue, forks, ends, and disks that refuse."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from worldsize.wings.metrics.inrank import log_file
from worldsize.wings.metrics.inrank.log_file import LogFile, line_of


def call(value: float) -> Any:
    return (1764224000.1234, int(value), [("loss", value)])


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def file(tmp_path: Path, told: list[str]) -> LogFile:
    """One whose thread writes at its end alone."""
    (tmp_path / "attempt-0").mkdir()
    return LogFile(str(tmp_path / "attempt-0/metrics/rank-00000.jsonl"), lambda kind, text: told.append(text), 3600)


def lines(file: LogFile) -> list[Any]:
    return [json.loads(line) for line in Path(file.path).read_text().splitlines()]


def test_a_line_has_the_time_in_milliseconds() -> None:
    assert line_of(call(2)) == '{"time":1764224000.123,"step":2,"values":{"loss":2.0}}\n'
    assert line_of((1.0, None, [("a", lambda: 1 / 0)])) == ""


def test_a_thread_writes_in_intervals(file: LogFile) -> None:
    is_written, append = threading.Event(), file._append

    def seen(data: bytes) -> bool:
        try:
            return append(data)
        finally:
            is_written.set()

    file._append = seen  # type: ignore[method-assign]
    file._interval = 0.001
    file.add(call(1))
    assert is_written.wait(30)
    file.close()
    assert [line["step"] for line in lines(file)] == [1]


def test_the_end_of_the_process_writes_what_is_queued_and_a_later_call_too(file: LogFile) -> None:
    for value in range(3):
        file.add(call(value))
    file.close()
    file.add(call(3))
    file.close()
    file.close()
    assert [line["step"] for line in lines(file)] == [0, 1, 2, 3]


def test_the_oldest_calls_are_dropped_and_counted(file: LogFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_file, "MOST_QUEUED", 3)
    file._begin()
    for value in range(5):
        file.add(call(value))
    file.close()
    assert lines(file)[0] == {"dropped": 2}
    assert [line["step"] for line in lines(file)[1:]] == [2, 3, 4]


def test_a_forked_process_leaves_its_parents_calls_to_the_parent(file: LogFile) -> None:
    file.add(call(1))
    child = os.fork()
    if child == 0:
        file.add(call(2))
        file.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    file.close()
    assert sorted(line["step"] for line in lines(file)) == [1, 2]


def test_a_full_disk_is_told_and_lines_stay_whole(
    file: LogFile, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write, room = os.write, [10]

    def full(descriptor: int, data: bytes) -> int:
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(descriptor, data[: room[0]])
        room[0] -= count
        return count

    monkeypatch.setattr(os, "write", full)
    file.add(call(1))
    file.write()
    room[0] = 10**6
    file.add(call(2))
    file.close()
    monkeypatch.undo()
    text = Path(file.path).read_text().splitlines()
    assert [len(text[0]), json.loads(text[1]), json.loads(text[2])["step"]] == [10, {"dropped": 1}, 2]
    assert told == ["cannot write %s: No space left on device" % file.path]


def test_a_directory_that_is_gone_is_told(tmp_path: Path, told: list[str]) -> None:
    file = LogFile(str(tmp_path / "none/metrics/rank.jsonl"), lambda kind, text: told.append(kind), 3600)
    file.add(call(1))
    file.close()
    assert told == ["disk"]


def test_a_link_or_a_pipe_in_the_place_of_the_file_is_not_opened(file: LogFile, told: list[str]) -> None:
    os.mkdir(os.path.dirname(file.path))
    os.mkfifo(file.path)
    file.add(call(1))
    file.close()
    os.unlink(file.path)
    os.symlink("/dev/full", file.path)
    file.add(call(1))
    file.close()
    ends = [text.rpartition(": ")[2] for text in told]
    assert ends == ["No such device or address", "Too many levels of symbolic links"]


def test_where_no_thread_can_be_started_the_caller_writes(file: LogFile, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    file.add(call(1))
    assert [line["step"] for line in lines(file)] == [1]


def test_the_files_mode_is_its_attempts(tmp_path: Path) -> None:
    (tmp_path / "attempt-0").mkdir()
    os.chmod(tmp_path / "attempt-0", 0o750)
    former = os.umask(0o027)
    try:
        file = LogFile(str(tmp_path / "attempt-0/metrics/rank-00000.jsonl"), lambda kind, text: None, 3600)
        file.add(call(1))
        file.close()
    finally:
        os.umask(former)
    assert [os.stat(path).st_mode & 0o777 for path in (os.path.dirname(file.path), file.path)] == [0o750, 0o640]


def test_a_worker_that_multiprocessing_forks_writes_its_own(file: LogFile) -> None:
    """Found by review: such a worker ends without what `atexit` has, and its last second was lost."""
    file.add(call(1))
    worker = multiprocessing.get_context("fork").Process(target=file.add, args=(call(2),))
    worker.start()
    worker.join()
    file.close()
    assert (worker.exitcode, [line["step"] for line in lines(file)]) == (0, [2, 1])


def test_what_is_logged_while_the_thread_writes_its_last_is_written_too(file: LogFile) -> None:
    """Found by review: the last values of a script that logs much were lost."""
    is_writing, may_go_on, append = threading.Event(), threading.Event(), file._append

    def slow(data: bytes) -> bool:
        is_writing.set()
        assert may_go_on.wait(30)
        return append(data)

    file._append = slow  # type: ignore[method-assign]
    file._interval = 0.001
    file.add(call(1))
    assert is_writing.wait(30)
    file.add(call(2))
    closing = threading.Thread(target=file.close)
    closing.start()
    while not file._is_closed:
        pass
    may_go_on.set()
    closing.join()
    assert [line["step"] for line in lines(file)] == [1, 2]
