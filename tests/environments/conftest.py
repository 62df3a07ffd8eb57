"""A channel of real packages, a directory of wheels, and the command line in a home of its own."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import conda_packages
import pytest
import wheels
from driver import Cli

BUILD = Path(__file__).resolve().parents[2] / "build"


@pytest.fixture(scope="session")
def channel() -> Path:
    """Made once, and kept below build/: packing an interpreter takes seconds."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc for the native package of the test channel")
    source = Path(conda_packages.__file__).read_bytes() + sys.version.encode() + sys.base_prefix.encode()
    made = BUILD / ("test-channel-" + hashlib.sha256(source).hexdigest()[:12])
    made.parent.mkdir(exist_ok=True)
    with open(str(made) + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            with tempfile.TemporaryDirectory(dir=BUILD) as scratch:
                conda_packages.write_channel(Path(scratch, "channel"), Path(scratch))
                os.rename(Path(scratch, "channel"), made)
    return made


@pytest.fixture(scope="session")
def caches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Shared by the tests of one process, as users share theirs between environments."""
    root = tmp_path_factory.mktemp("caches")
    return {"RATTLER_CACHE_DIR": str(root / "rattler"), "UV_CACHE_DIR": str(root / "uv")}


@pytest.fixture
def cli(tmp_path: Path, caches: dict[str, str]) -> Iterator[Cli]:
    cli = Cli(str(tmp_path))
    cli.environ.update(caches)
    yield cli
    cli.close()


@pytest.fixture
def links(tmp_path: Path) -> wheels.Links:
    """A directory of wheels, in place of an index."""
    return wheels.Links(tmp_path / "wheels")


@pytest.fixture
def with_setuptools(links: wheels.Links) -> wheels.Links:
    """setuptools as a wheel, from what is installed here: nothing is downloaded."""
    import setuptools

    site = Path(setuptools.__file__).parent.parent
    version = setuptools.__version__
    files = {}
    for root in ("setuptools", "pkg_resources", "_distutils_hack"):
        for path in sorted((site / root).rglob("*.py")) if (site / root).is_dir() else ():
            if "tests" not in path.parts:
                files[str(path.relative_to(site))] = path.read_text(encoding="utf-8")
    (info,) = site.glob("setuptools-*.dist-info")
    for path in (*(site / "setuptools").rglob("*.txt"), info / "entry_points.txt"):
        files[str(path.relative_to(site))] = path.read_text(encoding="utf-8", errors="replace")
    links.wheel("setuptools", version, files)
    return links
