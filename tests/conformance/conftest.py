"""Each test runs once on every compute."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hpcpack.simulator import Simulator
from slurm.cluster import Cluster
from slurm.fixtures import leave_as_found
from targets import TARGETS, Place, Target


@pytest.fixture
def place(target: Target, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    cluster: Cluster | Simulator | None = request.getfixturevalue(target.cluster) if target.cluster else None
    place = Place(_directory(cluster) or str(tmp_path))
    place.target = target
    config = target.config
    if isinstance(cluster, Cluster):
        place.environ["SLURM_CONF"] = cluster.environ["SLURM_CONF"]
    elif cluster:
        place.environ.update(cluster.environ())
        with open(cluster.config) as file:
            config = file.read().partition("\n\n")[2]
    place.write("worldsize.toml", 'default_compute = "%s"\n%s' % (target.name, config))
    yield place
    try:
        place.close()
    finally:
        if isinstance(cluster, Cluster):
            leave_as_found(cluster)


def _directory(cluster: Cluster | Simulator | None) -> str | None:
    """Where the nodes see what lies there."""
    if cluster is None:
        return None
    return tempfile.mkdtemp(dir=cluster.shared if isinstance(cluster, Cluster) else cluster.share)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        metafunc.parametrize("target", [_parameter(target) for target in TARGETS])


def _parameter(target: Target) -> object:
    return pytest.param(target, id=target.name, marks=[pytest.mark.slurm] if target.name.startswith("slurm") else [])
