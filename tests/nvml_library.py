"""A library in C that plays NVML: three GPUs that answer and one that is lost, of which the last one is divided."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


def compile_nvml(directory: Path, *words: str) -> None:
    """Make `libnvidia-ml.so.1` in the directory, for LD_LIBRARY_PATH. `words`: -DNEW, -DHANGS or nothing.
    Skips the test where nothing compiles it."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to compile a library with")
    source = os.path.splitext(__file__)[0] + ".c"
    target = str(directory / "libnvidia-ml.so.1")
    subprocess.run(["gcc", "-shared", "-fPIC", "-w", *words, "-o", target, source], check=True)
