"""What a case needs of the machine, beside what every test has."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess

from driver import SOURCE

from causes.case import Case
from causes.memory_groups import has_memory_groups


def _can_mount() -> bool:
    """Whether this user may mount a file system where nobody else sees it."""
    words = ("unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm")
    return (
        shutil.which(words[0]) is not None and subprocess.run(words, capture_output=True, check=False).returncode == 0
    )


ROOT = os.path.dirname(SOURCE)


def _said(*words: str) -> str:
    """What a program prints; "" where it is not there."""
    if shutil.which(words[0]) is None:
        return ""
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout


CONDITIONS = {
    "torch": lambda: importlib.util.find_spec("torch") is not None,
    "click": lambda: importlib.util.find_spec("click") is not None,
    "numpy": lambda: importlib.util.find_spec("numpy") is not None,
    "memory cgroup": has_memory_groups,
    "mounts": _can_mount,
    "mpirun": lambda: shutil.which("mpirun") is not None,
    "Open MPI 4": lambda: "Open MPI) 4." in _said("mpirun", "--version"),
    "ssh": lambda: shutil.which("ssh") is not None,
    "cc": lambda: shutil.which("cc") is not None,
}


def missing(case: Case) -> str:
    """What is not there of what the case needs; "" where all is."""
    lacks = [name for name in case.needs if not CONDITIONS[name]()]
    if case.environment and not os.path.exists(os.path.join(ROOT, case.environment, "bin", "python")):
        lacks.append(case.environment)
    return ", ".join(lacks)
