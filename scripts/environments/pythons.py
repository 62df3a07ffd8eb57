"""The Python interpreters of this machine: on PATH, or where pyenv and uv keep theirs."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

CLIENT = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
"""What the client supports, the oldest first; the last one where it is installed."""
NODE_ONLY = ("3.8", "3.9")
"""What the agent supports besides."""
_STARTS = "import ensurepip, venv"


def find(version: str) -> str | None:
    """An interpreter of this version that starts and can make virtual environments; its path."""
    home = os.path.expanduser("~")
    pyenv = os.environ.get("PYENV_ROOT", os.path.join(home, ".pyenv"))
    patterns = (
        os.path.join(pyenv, "versions", version + ".*", "bin", "python" + version),
        os.path.join(home, ".local/share/uv/python/cpython-%s.*" % version, "bin", "python" + version),
    )
    found = [shutil.which("python" + version), *(path for pattern in patterns for path in sorted(glob.glob(pattern)))]
    return next((path for path in found if path and _starts(path)), None)


def choose(versions: Sequence[str]) -> str | None:
    """This interpreter if it is one of these versions, else the newest of them that is found."""
    if "%d.%d" % sys.version_info[:2] in versions:
        return sys.executable
    return next((path for version in reversed(versions) if (path := find(version))), None)


def identity(python: str) -> str:
    """What a virtual environment made by this interpreter depends on: its version, its build and where it lies."""
    program = "import platform, sys; print(sys.version, platform.machine(), sys.base_prefix)"
    return subprocess.check_output([python, "-c", program], text=True)


def _starts(python: str) -> bool:
    return subprocess.call([python, "-c", _STARTS], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
