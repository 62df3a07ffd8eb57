"""A Python of Windows, simulated: without the modules, functions and constants that only POSIX systems have."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[3] / "src"

WINDOWS = """
import asyncio, ctypes, logging.handlers, multiprocessing, os, pathlib, selectors, shutil, signal, socket, ssl
import subprocess, sys, tempfile

ABSENT = ("fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog", "termios", "tty")
for name in ABSENT:
    sys.modules[name] = None  # so that importing it raises ImportError
for module, names in (
    (os, "O_CLOEXEC O_DIRECTORY O_NOCTTY O_NOFOLLOW O_NONBLOCK O_PATH fchmod fork geteuid getpgid getuid killpg mkfifo "
         "pread pwrite register_at_fork sched_getaffinity setsid sysconf uname WNOHANG chown"),
    (signal, "SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR1 SIGUSR2 SIG_BLOCK SIG_SETMASK "
             "pthread_sigmask setitimer"),
):
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
sys.platform = "win32"
"""

SAYS = "worldsize needs Linux, and this is a Python of Windows"
FIX = "install and use it in WSL 2: docs/how-to/clusters/hpcpack-windows.md"


def on_windows(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", WINDOWS + program, *words]
    environ = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("words", [[], ["run", "-w", "2x2", "--", "true"], ["hpcpack", "check"], ["--version"]])
def test_the_command_line_ends_with_one_sentence(words: list[str]) -> None:
    done = on_windows("from worldsize.cli.main import run; run()", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "worldsize: %s\n  → %s\n" % (SAYS, FIX)


@pytest.mark.parametrize("name", ["submit", "load_job", "open_run", "MLClient", "PyTorchDistribution"])
def test_a_name_that_needs_linux_is_the_same_sentence(name: str) -> None:
    done = on_windows("from worldsize import %s" % name)
    assert done.returncode == 1 and done.stderr.splitlines()[-2:] == [
        "worldsize.errors.UsageError: " + SAYS,
        "  → " + FIX,
    ]


def test_an_unknown_name_is_unknown_there_too() -> None:
    assert "ImportError: cannot import name 'sumbit'" in on_windows("from worldsize import sumbit").stderr


SCRIPT = """
from worldsize import RunState, WorldsizeError, log, once_per_node, rank_info, shard
me = rank_info()
with once_per_node() as first:
    print(me.rank, me.world_size, first)
log({"loss": 0.5}, step=1)
"""


def test_a_training_script_can_be_tried_there_as_on_the_only_rank() -> None:
    done = on_windows(SCRIPT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 1 True\n", "")
