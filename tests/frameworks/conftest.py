"""Each example runs on virtual nodes of this machine and on the Slurm cluster; no process may be left of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from driver import Cli
from hpcpack.simulator import Simulator
from slurm.cluster import Cluster
from slurm.login import login_of

SLURM = pytest.param("slurm", marks=[pytest.mark.slurm, pytest.mark.exhaustive])
HPCPACK = pytest.param("hpcpack", marks=pytest.mark.exhaustive)
"""A framework that trains on virtual nodes meets elsewhere what tests/slurm, tests/hpcpack and tests/conformance prove
of any ranks."""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    cli = Cli(str(tmp_path))
    yield cli
    cli.close()


@contextmanager
def on_slurm(cluster: Cluster) -> Iterator[Cli]:
    with login_of(cluster) as login:
        yield login


@contextmanager
def on_hpcpack(cluster: Simulator) -> Iterator[Cli]:
    cli = Cli(tempfile.mkdtemp(dir=cluster.share))
    cli.environ.update(cluster.environ())
    with open(cluster.config) as file:
        config = file.read().partition("\n\n")[2]
    cli.write("worldsize.toml", 'default_compute = "hpcpack"\n' + config)
    yield cli
    cli.close()


@pytest.fixture(params=["local", SLURM])
def place(request: pytest.FixtureRequest, cli: Cli) -> Iterator[Cli]:
    """The command line in a project whose jobs run on either."""
    if request.param == "local":
        yield cli
    else:
        with on_slurm(request.getfixturevalue("slurm")) as login:
            yield login


@pytest.fixture(params=["local", SLURM, HPCPACK])
def every_place(request: pytest.FixtureRequest, cli: Cli) -> Iterator[Cli]:
    """The same on every compute."""
    if request.param == "local":
        yield cli
        return
    cluster = request.getfixturevalue(request.param)
    with (on_slurm if request.param == "slurm" else on_hpcpack)(cluster) as elsewhere:
        yield elsewhere


@pytest.fixture(params=["2x1", pytest.param("2x2", marks=pytest.mark.exhaustive)])
def world(request: pytest.FixtureRequest) -> str:
    """Two nodes, of one process or of two as the examples' job files have them."""
    size: str = request.param
    return size


@pytest.fixture
def slurm_place(slurm: Cluster) -> Iterator[Cli]:
    """Slurm alone."""
    with on_slurm(slurm) as login:
        yield login
