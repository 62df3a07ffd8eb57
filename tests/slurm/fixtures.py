"""The real cluster as pytest knows it: one for the whole session, left as it was found after each test.

Tests that ask for it are marked `slurm`. Where it cannot be had they are skipped, loudly (and fail under CI).
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest

from slurm import machine
from slurm.cluster import Cluster, Flavour, Process

FIXTURES = ("slurm", "slurm_without_accounting")
PATIENCE = 20.0
PATIENCE_AFTER_A_CRASH = 40.0
"""A controller that was killed has forgotten its youngest jobs, which it ends 20 s after it calls their nodes idle."""

_running: dict[str, Cluster] = {}


def skip_without_cluster(accounting: bool = True) -> None:
    """Skips the test where no cluster can be had."""
    missing = machine.missing(accounting)
    if missing:
        pytest.skip("NO SLURM CLUSTER HERE, so nothing of it is tested: %s" % "; ".join(missing))


def _session(name: str, flavour: Flavour) -> Iterator[Cluster]:
    skip_without_cluster(flavour.accounting)
    with Cluster.start(flavour) as cluster:
        _running[name] = cluster
        yield cluster
        del _running[name]


@pytest.fixture(scope="session")
def slurm() -> Iterator[Cluster]:
    """Four idle nodes, with accounting."""
    yield from _session("slurm", Flavour())


@pytest.fixture(scope="session")
def slurm_without_accounting() -> Iterator[Cluster]:
    """Four idle nodes of a cluster where sacct has nothing to tell."""
    yield from _session("slurm_without_accounting", Flavour(accounting=False))


def remains(cluster: Cluster, patience: float = PATIENCE) -> dict[str, list[Process]]:
    """What is still alive on idle nodes after some seconds, by node."""
    deadline = time.monotonic() + patience
    while True:
        left = {node: there for node in cluster.node_names if (there := cluster.processes(node))}
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def leave_as_found(cluster: Cluster) -> None:
    """Ends all jobs and undoes all faults; a process that outlived them fails the test."""
    cluster.restore()
    left = remains(cluster, PATIENCE_AFTER_A_CRASH if cluster.controller_crashed else PATIENCE)
    cluster.controller_crashed = False
    for there in left.values():
        for process in there:
            os.kill(process.pid, signal.SIGKILL)
    cluster.clear_tmp()
    assert not left, "processes outlived their jobs: %s" % left


@pytest.fixture(autouse=True)
def _slurm_left_as_found(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set up before all others of a test, so that it comes last; also for clusters that a fixture asked for late."""
    yield
    for name in FIXTURES:
        if name in request.fixturenames and name in _running:
            leave_as_found(_running[name])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if set(FIXTURES) & set(getattr(item, "fixturenames", ())):
            item.add_marker("slurm")
