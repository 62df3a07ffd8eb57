"""Paths that ranks see read-only: an ordinary user cannot take it back, and where it is impossible nothing changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[4] / "src"
ORDINARY = 54321
_PROGRAM = """\
import os, subprocess, sys
sys.path.insert(0, sys.argv[1])
from worldsize.wings.provisioning.agent.read_only import make_read_only, try_read_only
data = sys.argv[2]
print("tried", repr(try_read_only([data])))
print("refused", make_read_only([data], sys.argv[3]))
os.environ["D"] = data
script = "touch $D/new; mount -o remount,rw,bind $D; umount $D; touch $D/new; touch ${D}2 && echo beside; id -u"
print(subprocess.run(["sh", "-c", script], capture_output=True, text=True).stdout)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """Where every user of this machine can read."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    folder.chmod(0o777)
    (folder / "data").mkdir()
    (folder / "data").chmod(0o777)
    shutil.copytree(SOURCE, folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    yield folder
    shutil.rmtree(folder)


def as_ordinary_user(place: Path, needed: Path) -> list[str]:
    root = os.geteuid() == 0
    python = "/usr/bin/python3" if root and os.path.exists("/usr/bin/python3") else sys.executable
    words = [python, "-c", _PROGRAM, str(place / "src"), str(place / "data"), str(needed)]
    more = {"user": ORDINARY, "group": ORDINARY, "extra_groups": []} if root else {}
    done = subprocess.run(words, cwd="/", capture_output=True, text=True, check=True, **more)  # type: ignore[call-overload]
    lines: list[str] = done.stdout.splitlines()
    return lines


def test_an_ordinary_user_cannot_take_it_back(place: Path) -> None:
    tried, refused, *more = as_ordinary_user(place, place / "run")
    new = (place / "data" / "new").exists()
    user = str(ORDINARY if os.geteuid() == 0 else os.geteuid())
    assert more[:2] == ["beside", user], "whoever cannot have it keeps being who they are"
    if tried == "tried ''":
        assert refused == "refused []" and not new
    else:
        assert "mounts: " in refused and new


def test_what_holds_the_run_directory_is_left_alone(place: Path) -> None:
    _, refused, *_ = as_ordinary_user(place, place / "data" / "deep" / "run")
    assert "contains the run directory" in refused and (place / "data" / "new").exists()
