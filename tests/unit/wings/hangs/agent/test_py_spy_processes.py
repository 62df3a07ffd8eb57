"""py-spy outlives the program that has started it where the run ends meanwhile: it is none of the ranks' processes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from worldsize.agent.posix.processes import HELPER_OF
from worldsize.wings.hangs.agent.py_spy import ask_py_spy


def test_py_spy_is_known_as_a_helper_of_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "py-spy"
    program.write_text("#!/bin/sh\nexec env\n")
    program.chmod(0o755)
    monkeypatch.setenv(HELPER_OF, "4711")
    monkeypatch.setenv("PASSWORD", "hunter2")
    said = ask_py_spy(str(program), [os.getpid()], time.monotonic() + 60.0)[os.getpid()].output.decode()
    assert f"{HELPER_OF}=4711\n" in said and "PASSWORD" not in said
