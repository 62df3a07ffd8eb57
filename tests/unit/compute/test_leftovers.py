"""Processes that handles name."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from worldsize.agent.posix.processes import stat_fields
from worldsize.compute.local.leftovers import is_alive
from worldsize.plan.handle import handle_of
from worldsize.plan.run_paths import RunPaths

ID = "20260101-000000-000abc"


def test_a_handle_takes_no_exit_code_of_another_child(tmp_path: Path) -> None:
    """Found by review: who looked at somebody else's run lost the exit code of a child of his own, named there."""
    with subprocess.Popen(["sh", "-c", "exit 7"]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        fields = stat_fields(child.pid)
        assert fields is not None
        for pid in (child.pid, -1):
            assert not is_alive({"pid": pid, "start_time": int(fields[19])})
    assert child.returncode == 7


@pytest.mark.parametrize("pid", [0, -1, -99])
def test_what_is_no_process(tmp_path: Path, pid: int) -> None:
    with pytest.raises(ValueError, match="is not a process"):
        handle_of(RunPaths(str(tmp_path / ID)), {"type": "local", "pid": pid})
