"""A release as `make dist` and `make pyz` make it, and as `make try-dist` tries it: packages that hold everything, that
work without a compiler and without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email import message_from_string
from email.message import Message
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-release" / "bin" / "python"
ADDRESS = "https://example.org/someone/worldsize"

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="no .venv-release (make environments)")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the files that git tracks, so dist/ of the checkout is left alone."""
    target = tmp_path_factory.mktemp("release") / "checkout"
    for name in tracked():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            (target / name).symlink_to(os.readlink(ROOT / name))
        else:
            os.link(ROOT / name, target / name)
    release(target, "dist")
    yield target


def tracked() -> list[str]:
    out = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in out.split("\0") if name and os.path.lexists(ROOT / name)]


def release(checkout: Path, *words: str) -> str:
    environ = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        [str(PYTHON), "-m", "scripts.release", *words],
        cwd=checkout,
        env={**environ, "WORLDSIZE_REPOSITORY": ADDRESS},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def package(checkout: Path, pattern: str) -> Path:
    (found,) = (checkout / "dist").glob(pattern)
    return found


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def test_the_sdist_is_the_checkout(checkout: Path) -> None:
    with tarfile.open(package(checkout, "*.tar.gz")) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if not member.isdir()}
    assert names == {*tracked(), "PKG-INFO"}


def test_the_wheels_hold_their_packages_and_say_where_they_come_from(checkout: Path) -> None:
    main, simulator = package(checkout, "worldsize-*.whl"), package(checkout, "worldsize_hpcpack_simulator-*.whl")
    folders = []
    for wheel in (main, simulator):
        with zipfile.ZipFile(wheel) as archive:
            folders.append({name.partition("/")[0] for name in archive.namelist() if ".dist-info/" not in name})
    assert folders == [{"worldsize", "worldsize_conformance"}, {"worldsize_hpcpack_simulator"}]
    for wheel in (main, simulator):
        said = metadata(wheel)
        assert (said["License-Expression"], said["License-File"]) == ("MIT", "LICENSE")
        assert "Homepage, %s" % ADDRESS in said.get_all("Project-URL", [])
    assert metadata(simulator).get_all("Requires-Dist") == [
        "worldsize[hpcpack,simulator]==%s" % metadata(main)["Version"]
    ]


@pytest.mark.exhaustive
def test_the_packages_of_two_builds_are_equal(checkout: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in (checkout / "dist").iterdir()}
    release(checkout, "dist")
    assert {name: (checkout / "dist" / name).read_bytes() for name in before} == before


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_a_stranger_runs_the_wheels_and_the_zipapp(checkout: Path) -> None:
    said = release(checkout, "pyz")
    assert "dist/worldsize.pyz" in said
    lines = release(checkout, "try").splitlines()
    assert [line.split(":")[0] for line in lines] == ["==> wheels", "==> wheels", "==> worldsize.pyz"]
    assert all("SUCCEEDED" in line for line in lines)


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_a_zipapp_runs_jobs_with_the_python_of_their_user(checkout: Path, tmp_path: Path) -> None:
    if not (checkout / "dist/worldsize.pyz").exists():
        release(checkout, "pyz")
    environment = tmp_path / "own"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    environ = {"PATH": "%s:%s" % (environment / "bin", os.defpath), "HOME": str(tmp_path)}
    program = "import os, sys; print(sys.prefix, os.environ.get('VIRTUAL_ENV'), 'PEX' in os.environ)"
    words = ["run", "-w", "1x1", "--", "python", "-c", program]
    command = [sys.executable, str(checkout / "dist/worldsize.pyz"), *words]
    out = subprocess.run(command, cwd=tmp_path, env=environ, check=True, capture_output=True, text=True).stdout
    assert "%s %s False" % (environment, environment) in out
