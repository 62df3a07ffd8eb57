"""The picture of the packages in the documentation is that of the code."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_picture_is_that_of_the_imports():
    drawn = subprocess.run(
        [sys.executable, "scripts/draw_architecture.py", "--check"], cwd=ROOT, capture_output=True, text=True
    )
    assert drawn.returncode == 0, drawn.stdout + drawn.stderr
