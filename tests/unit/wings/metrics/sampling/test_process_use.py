"""What processes have used, by recorded files of /proc."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from worldsize.wings.metrics.agent.process_use import Growth, ProcessUse, TreeUse, read_process, sum_of

PAGE = os.sysconf("SC_PAGE_SIZE")
STAT = "%d (%s) S 10 20 30 0 -1 4194304 100 200 0 0 5 6 70 8 20 0 3 0 4242 9999999 250 18446744073709551615 1 1 0 0 0\n"
IO = "rchar: 1000\nwchar: 200\nsyscr: 5\nsyscw: 6\nread_bytes: 4096\nwrite_bytes: 0\ncancelled_write_bytes: 0\n"


def record(
    proc: Path, pid: int, stat: str | None, statm: str | None = "900 250 40 1 0 9 0\n", io: str | None = IO
) -> None:
    (proc / str(pid)).mkdir(parents=True)
    for name, text in (("stat", stat), ("statm", statm), ("io", io)):
        if text is not None:
            (proc / str(pid) / name).write_text(text)


@pytest.mark.parametrize("name", ["python", "a) R 1 (b", "(()", ""])
def test_a_process_is_read(tmp_path: Path, name: str) -> None:
    record(tmp_path, 7, STAT % (7, name))
    assert read_process(7, str(tmp_path)) == ProcessUse("S", 10, 30, 4242, 89, 250 * PAGE, 40 * PAGE, 1000, 200)


def test_what_lets_nobody_know_of_its_files_is_read_without_them(tmp_path: Path) -> None:
    record(tmp_path, 7, STAT % (7, "x"), statm=None, io=None)
    assert read_process(7, str(tmp_path)) == ProcessUse("S", 10, 30, 4242, 89, 0, 0, None, None)


@pytest.mark.parametrize("stat", ["", "7 (x) S\n", "nonsense", "7 (x) S a b c " + "d " * 40, "7 (x)"])
def test_rubbish_is_no_process(tmp_path: Path, stat: str) -> None:
    record(tmp_path, 7, stat)
    assert read_process(7, str(tmp_path)) is None
    assert read_process(8, str(tmp_path)) is None


def test_a_pipe_in_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    record(tmp_path, 7, None)
    os.mkfifo(tmp_path / "7" / "stat")
    assert read_process(7, str(tmp_path)) is None


def test_this_process_is_read() -> None:
    use = read_process(os.getpid())
    assert use is not None
    assert use.parent == os.getppid()
    assert use.session == os.getsid(0)
    assert 0 < use.resident < 1 << 40


def test_memory_that_is_shared_by_files_counts_once() -> None:
    one = ProcessUse("S", 1, 1, 1, 10, 500, 400, 7, None)
    two = one._replace(ticks=5, resident=450, shared=380, read=None)
    assert sum_of([one, two]) == TreeUse(15, 100 + 70 + 400, 7, None)
    assert sum_of([]) == TreeUse(0, 0, None, None)


def test_a_count_never_falls_and_goes_on_where_it_fell() -> None:
    count = Growth()
    assert [count.add(each) for each in (10, 30, 5, None, 25, 25)] == [10, 30, 30, 30, 50, 50]
    assert Growth().add(None) is None
    later = Growth(None)
    assert [later.add(each) for each in (1000, 1001, 900, 950)] == [0, 1, 1, 51]
