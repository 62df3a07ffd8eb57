"""A rank's file of stacks does not grow as long as the run is looked at."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from worldsize.wings.hangs.agent import signal_dumps
from worldsize.wings.hangs.agent.signal_dumps import ask_by_signal, dump_signal

RANK = """
import faulthandler, os, sys, time
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
faulthandler.register(int(sys.argv[2]), file=file, all_threads=True)
print("ready", flush=True)
sys.stdin.read()
"""


def test_what_was_written_long_ago_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal_dumps, "_MOST_KEPT", 2000)
    path = str(tmp_path / "rank-00000.txt")
    with subprocess.Popen(
        [sys.executable, "-c", RANK, path, str(dump_signal())], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as rank:
        try:
            assert rank.stdout is not None and rank.stdout.readline() == b"ready\n"
            with open(path, "w") as file:
                file.write("x" * 1999 + "\n")
            sizes = []
            for _ in range(2):
                answer = ask_by_signal({rank.pid: path}, time.monotonic() + 60.0)[rank.pid]
                assert answer.problem == "" and answer.threads[0].frames, answer
                sizes.append(os.path.getsize(path))
            assert sizes[0] > 2000, "up to there all is kept"
            assert sizes[1] == sizes[0] - 2000
        finally:
            rank.kill()


def test_a_link_in_the_files_place_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("x" * 5000)
    link = tmp_path / "rank-00000.txt"
    link.symlink_to(other)
    signal_dumps.make_room(str(link), 2000)
    assert other.stat().st_size == 5000
