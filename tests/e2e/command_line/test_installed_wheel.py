"""What the built wheel brings beside the code: the examples, and the file that has type checkers read annotations."""

from __future__ import annotations

import os
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1200)]
ROOT = Path(__file__).resolve().parents[3]
USER = """\
from worldsize import Run, open_run

run: Run = open_run("id")
number: int = run.status
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel, and this one's packages beside it."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns(".*", "tests", "benchmarks", "__pycache__")
    shutil.copytree(ROOT, folder / "source", ignore=ignored)
    (folder / "source" / "examples" / "mnist" / "data").mkdir(exist_ok=True)
    (folder / "source" / "examples" / "mnist" / "data" / "large.bin").write_bytes(b"0")
    build = ["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(folder / "source")]
    subprocess.run([sys.executable, *build], check=True)
    (wheel,) = folder.glob("*.whl")
    assert wheel.stat().st_size < 4_000_000
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if name.endswith("large.bin")]
        archive.extractall(packages)
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return folder / "venv" / "bin" / "python"


def executed(words: list[object], folder: Path) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    words = list(map(str, words))
    return subprocess.run(words, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def test_examples_are_copied_out_of_it(python: Path, tmp_path: Path) -> None:
    done = executed([python, "-m", "worldsize", "examples", "hello"], tmp_path)
    assert (done.returncode, done.stdout) == (0, "worldsize run hello/job.yml\n"), done.stderr
    original = ROOT / "examples" / "hello"
    for path in ("job.yml", "src/hello.py"):
        assert (tmp_path / "hello" / path).read_bytes() == (original / path).read_bytes()


def test_type_checkers_read_its_annotations(python: Path, tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER)
    done = executed([sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "user.py"], tmp_path)
    assert "user.py:4: error: Incompatible types in assignment" in done.stdout and "Found 1 error" in done.stdout
