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

WITHOUT_ACCOUNTING = {
    "test_the_exit_code_comes_through",
    "test_the_time_limit",
    "test_cancel_while_it_runs",
    "test_observing_many_at_once",
    "test_absent_never_means_that_it_succeeded",
    "test_what_failed_is_started_again",
    "test_the_first_failing_element_gives_the_code",
}
"""Where Slurm without accounting differs: how the end of a job is learnt. The others run there with test-all only."""

SLOW_COMMANDS = ("hpcpack", "test_however_it_ends_it_ends_everywhere_and_the_run_goes_on")
"""Half a minute of waiting for files on a share; the same is tested on the other computes."""


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
        name = metafunc.function.__name__
        metafunc.parametrize("target", [_parameter(target, name) for target in TARGETS])


def _parameter(target: Target, test: str) -> object:
    marks = [pytest.mark.slurm] if target.name.startswith("slurm") else []
    if (target.name == "slurm-alone" and test not in WITHOUT_ACCOUNTING) or (target.name, test) == SLOW_COMMANDS:
        marks.append(pytest.mark.exhaustive)
    return pytest.param(target, id=target.name, marks=marks)
