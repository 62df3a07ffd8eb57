"""Programs that a build starts, and a signal that comes meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os, signal, sys, threading
from worldsize.wings.environments.workspace.builder import Build
from worldsize.wings.environments.workspace.programs import execute

def end(number, frame):
    raise SystemExit(128 + number)

signal.signal(signal.SIGTERM, end)
restore = signal.signal

def set_handler(number, handler):
    former = restore(number, handler)
    if handler is end and sys.argv[3] == "right after":
        signal.raise_signal(signal.SIGTERM)
    return former

signal.signal = set_handler
threading.Thread(target=threading.Event().wait, daemon=True).start()
again = "trap 'kill -TERM $PPID' TERM; kill -TERM $PPID; sleep %s & wait; wait"
once = "kill -TERM $PPID; exec sleep %s"
words = ["bash", "-c", (again if sys.argv[3] == "while it is ended" else once) % sys.argv[2]]
for _ in range(20):
    try:
        execute(Build(sys.argv[1], lambda text: None), words, os.environ, "it")
    except SystemExit as ended:
        assert ended.code == 143
    with open("/proc/self/task/%d/children" % os.getpid()) as file:
        assert file.read() == ""
"""


@pytest.mark.heavy
@pytest.mark.parametrize("moment", ["while it starts", "right after", "while it is ended"])
def test_a_signal_while_a_program_starts_ends_it_too(tmp_path: Path, moment: str) -> None:
    """Another thread takes what this one has blocked: the program was started, and forgotten. A second signal, while it
    was being ended, had its end waited for."""
    seconds = "600.%d" % os.getpid()
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path), seconds, moment]) as process:
        try:
            assert process.wait(110) == 0
        finally:
            process.kill()
            assert _kill(b"sleep\0" + seconds.encode()) == []


def _kill(words: bytes) -> list[str]:
    """Every process with these words, which are ended."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if words in Path("/proc", name, "cmdline").read_bytes():
                os.kill(int(name), signal.SIGKILL)
                found.append(name)
        except OSError:
            continue
    return found
