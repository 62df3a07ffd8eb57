"""Programs that hang, print without end, drive terminals or are missing, all executed side by side."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from driver import wait_for

from worldsize.agent.posix.processes import stat_fields
from worldsize.wings.doctor.programs import MISSING, Answer, execute_all

Write = Callable[[str, str], None]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(name: str, script: str) -> None:
        (tmp_path / name).write_text("#!/bin/sh\n" + script)
        (tmp_path / name).chmod(0o755)

    return make


def answers(tmp_path: Path, *names: str, seconds: float = 5.0, **environ: str) -> Mapping[str, Answer]:
    path = "%s:%s" % (tmp_path, os.environ["PATH"])
    return execute_all({name: (name, "--version") for name in names}, {"PATH": path, **environ}, seconds)


def test_the_output_and_the_code(write: Write, tmp_path: Path) -> None:
    write("good", "echo; echo $0 $1 4.1; echo two >&2")
    write("bad", "echo no licence >&2; exit 3")
    write("killed", "kill -9 $$")
    found = answers(tmp_path, "good", "bad", "killed", "no-such-program")
    good = found["good"]
    assert (good.path, good.succeeded, good.line) == (str(tmp_path / "good"), True, "%s/good --version 4.1" % tmp_path)
    assert (found["bad"].code, found["bad"].line, found["killed"].code) == (3, "no licence", 137)
    assert found["no-such-program"] == MISSING and list(found) == ["good", "bad", "killed", "no-such-program"]


def test_a_program_that_hangs_is_ended_with_its_children(write: Write, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    write("hangs", "sleep 300 & echo $! $$ > %s; echo begun; wait" % pids)
    write("deaf", "trap '' TERM HUP; exec sleep 300")
    began = time.monotonic()
    found = answers(tmp_path, "hangs", "deaf", seconds=1.0)
    assert time.monotonic() - began < 4, "they were executed one after the other, or waited for"
    assert found["hangs"] == Answer(str(tmp_path / "hangs"), None, "begun\n", "no answer in 1 s")
    assert found["deaf"].code is None
    for pid in map(int, pids.read_text().split()):
        wait_for(lambda pid=pid: has_ended(pid))


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or only waits for whoever adopted it to notice."""
    fields = stat_fields(pid)
    return fields is None or fields[0] == b"Z"


def test_hostile_output_is_bounded_and_plain(write: Write, tmp_path: Path) -> None:
    write("endless", "exec yes 'a line without end'")
    write("colours", r"printf '\033[31mred\033[0m \033]0;title\007\033[2J\000\377 end\n'")
    write("long", "head -c 100000 /dev/zero | tr '\\0' x")
    found = answers(tmp_path, "endless", "colours", "long")
    assert (found["endless"].code, found["endless"].why) == (None, "it prints without end")
    assert len(found["endless"].out) <= 256 << 10
    assert found["colours"].line == "red � end" and found["colours"].line.isprintable()
    assert len(found["long"].line) == 160 and found["long"].line.endswith("x…")


def test_what_is_not_executed_and_not_passed_on(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("shows", 'echo "$WORLDSIZE_HPCPACK_PASSWORD|$SLURM_JOB_ID|$SLURM_CONF"; cat')
    monkeypatch.chdir(tmp_path)
    found = answers(tmp_path, "shows", WORLDSIZE_HPCPACK_PASSWORD="secret", SLURM_JOB_ID="1", SLURM_CONF="/c")
    assert found["shows"].out == "||/c\n"
    assert execute_all({"x": ("shows",)}, {"PATH": ".:/nonexistent"})["x"] == MISSING, "a file of this directory"
    (tmp_path / "shows").write_text("no program")
    (tmp_path / "shows").chmod(0o755)
    assert answers(tmp_path, "shows")["shows"].why
