"""Each test runs once on every compute."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hpcpack.simulator import Simulator
from slurm.cluster import Cluster
from slurm.fixtures import leave_as_found
from targets import TARGETS, OwnTarget

from worldsize_conformance.fixtures import place as place
from worldsize_conformance.place import Target

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
def target(own_target: OwnTarget, request: pytest.FixtureRequest) -> Iterator[Target]:
    target = own_target.target
    cluster: Cluster | Simulator | None = request.getfixturevalue(own_target.cluster) if own_target.cluster else None
    if isinstance(cluster, Cluster):
        environ = {"SLURM_CONF": cluster.environ["SLURM_CONF"]}
        yield target._replace(directory=cluster.shared, environ=environ)
        leave_as_found(cluster)
    elif cluster:
        with open(cluster.config) as file:
            config = file.read().partition("\n\n")[2]
        yield target._replace(directory=cluster.share, environ=cluster.environ(), config=config)
    else:
        yield target


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        name = metafunc.function.__name__
        metafunc.parametrize("own_target", [_parameter(each, name) for each in TARGETS])


def _parameter(own: OwnTarget, test: str) -> object:
    target = own.target
    marks = [pytest.mark.slurm] if target.name.startswith("slurm") else []
    if (target.name == "slurm-alone" and test not in WITHOUT_ACCOUNTING) or (target.name, test) == SLOW_COMMANDS:
        marks.append(pytest.mark.exhaustive)
    return pytest.param(own, id=target.name, marks=marks)
