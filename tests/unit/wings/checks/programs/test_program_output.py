"""Programs that a check starts: real ones, for their ends, their output and what they leave behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from driver import wait_for

from worldsize.wings.checks.agent.programs.program_output import ProgramEnd, run_program


def run(text: str, limit: float = 30.0, most: int = 1 << 20) -> ProgramEnd:
    return run_program(["/bin/sh", "-c", text], dict(os.environ), "/", limit, most)


def test_output_and_code() -> None:
    assert run("echo a; echo b >&2; exit 3") == ProgramEnd(3, "a\nb\n")
    assert run("kill -SEGV $$").code == -11
    assert run("pwd").output == "/\n"


def test_end_of_much_output_is_kept() -> None:
    end = run("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done", most=100)
    assert (end.code, len(end.output)) == (0, 100)
    assert end.output.endswith("line 19999\n")


def test_binary_output_is_text() -> None:
    assert run(r"printf '\377\000a'").output == "\ufffd\0a"


def test_late_program_is_killed_with_its_children(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    end = run("sleep 77 & echo $! $$ > %s; echo begun; wait" % pids, limit=0.5)
    assert end == ProgramEnd(None, "begun\n")
    assert_gone(pids)


def test_child_that_holds_the_output_is_not_waited_for(tmp_path: Path) -> None:
    pids, begun = tmp_path / "pids", time.monotonic()
    assert run("sleep 77 & echo $! > %s; echo done" % pids) == ProgramEnd(0, "done\n")
    assert time.monotonic() - begun < 20
    assert_gone(pids)


def test_program_that_closes_its_output() -> None:
    assert run("exec >&- 2>&-; sleep 0.1; exit 4") == ProgramEnd(4, "")


def test_endless_output_ends_at_the_limit() -> None:
    end = run("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", limit=0.3, most=1000)
    assert (end.code, len(end.output)) == (None, 1000)


def test_program_with_a_lifeline_may_end_by_itself(tmp_path: Path) -> None:
    text = "read -r nothing; echo told > %s/told; exit 3" % tmp_path
    end = run_program(["/bin/sh", "-c", text], dict(os.environ), "/", 0.1, lifeline=True)
    assert (end.code, (tmp_path / "told").read_text()) == (None, "told\n")
    assert run_program(["/bin/sh", "-c", "exit 4"], {}, "/", 30.0, lifeline=True).code == 4


def test_program_that_is_not_there() -> None:
    with pytest.raises(OSError):
        run_program(["/none"], {}, "/", 1.0)
    with pytest.raises(OSError):
        run_program([sys.executable], {}, "/none", 1.0)


def test_program_ends_with_the_probe_that_started_it(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    probe = os.fork()
    if probe == 0:
        try:
            run("echo $$ > %s.new; mv %s.new %s; exec sleep 77" % (pids, pids, pids), limit=60.0)
        finally:
            os._exit(1)
    wait_for(pids.exists)
    os.kill(probe, signal.SIGKILL)
    os.waitpid(probe, 0)
    assert_gone(pids)


def assert_gone(pids: Path) -> None:
    """None of these processes is left, or they are about to end: they were killed."""
    for pid in pids.read_text().split():
        deadline = time.monotonic() + 10
        while is_alive(int(pid)):
            assert time.monotonic() < deadline, "process %s is left" % pid
            time.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path("/proc/%d/stat" % pid).read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False
