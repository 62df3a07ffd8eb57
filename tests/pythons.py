"""The Pythons of this machine: an agent runs on each that is supported."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from functools import cache


def installed(*versions: str) -> list[str]:
    """A Python of each of these versions, where it is found."""
    root = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    found = []
    for version in versions:
        paths = [
            shutil.which("python" + version),
            *sorted(glob.glob(root + "/versions/%s.*/bin/python%s" % (version, version))),
        ]
        found += [path for path in paths if path and subprocess.call([path, "-c", ""], stderr=subprocess.DEVNULL) == 0][
            :1
        ]
    return found


@cache
def supported() -> list[str]:
    """Those that an agent runs on, the oldest first."""
    return installed("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15") or [sys.executable]


def too_old() -> list[str]:
    return installed("2.7", "3.6", "3.7")
