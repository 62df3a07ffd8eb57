"""Which program counts as py-spy, and what becomes of ranks that it is empty of."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hooked_ranks import WAITS, HookedRanks, collect, ranks

from worldsize.wings.hangs.agent import py_spy
from worldsize.wings.hangs.agent.stack_collector import collect_stacks

__all__ = ["ranks"]


def fake_py_spy(folder: Path, script: str, mode: int = 0o755) -> str:
    folder.mkdir(exist_ok=True)
    (folder / "py-spy").write_text("#!/bin/sh\n" + script)
    (folder / "py-spy").chmod(mode)
    return str(folder / "py-spy")


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("exec sleep 1000", "py-spy took more than 0 s"),
        ("echo 'Error: No.'>&2; echo 'Caused by:'>&2; echo '  0: Permission denied (os error 13)'>&2; exit 1",
         "py-spy: No. (Permission denied (os error 13))"),
        ("echo '[{\"frames\": 7'", "py-spy: it found no frames"),
        ("echo '[{\"pid\": 1, \"os_thread_id\": 1, \"frames\": []}]'", "py-spy: it found no frames"),
        ("exit 3", "py-spy: it ended with code 3"),
    ],
)  # fmt: skip
def test_where_py_spy_fails_faulthandler_answers(
    ranks: HookedRanks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, problem: str
) -> None:
    monkeypatch.setattr(py_spy, "SECONDS_EACH", 0.3)
    ranks.start(WAITS)
    (stacks,) = collect(ranks, fake_py_spy(tmp_path / "bin", script))
    assert (stacks.source, stacks.problem) == ("faulthandler", problem)


def test_py_spy_of_a_ranks_environment_counts_where_nobody_else_can_change_it(
    ranks: HookedRanks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(sys, "executable", "/nonexistent/python")
    mine, open_file = (
        fake_py_spy(tmp_path / name, "exit 1", mode) for name, mode in (("mine", 0o755), ("open", 0o777))
    )
    in_open_folder = fake_py_spy(tmp_path / "folder", "exit 1")
    (tmp_path / "folder").chmod(0o777)
    unsafe = os.pathsep.join([os.path.dirname(open_file), os.path.dirname(in_open_folder), "relative"])
    python = str(Path(sys.base_prefix, "bin", "python3"))
    ranks.start(WAITS, python, "{}", PATH=unsafe)
    found = py_spy.find_py_spy(ranks.roots.values())
    assert found is None or not found.startswith(str(tmp_path))
    ranks.start(WAITS, python, "{}", PATH=os.pathsep.join([unsafe, os.path.dirname(mine)]))
    assert py_spy.find_py_spy([ranks.roots[1]]) == mine


def test_the_time_is_limited(ranks: HookedRanks, tmp_path: Path) -> None:
    ranks.start(WAITS)
    program: Callable[..., str] = lambda _: fake_py_spy(tmp_path / "bin", "exec sleep 1000")  # noqa: E731
    (stacks,) = collect_stacks(ranks.roots, str(ranks.directory), seconds=0.0, find_program=program)
    assert stacks.source == "proc" and stacks.problem.startswith("there was no time left")
