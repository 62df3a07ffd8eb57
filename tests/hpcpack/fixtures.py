"""The simulated HPC Pack cluster as pytest knows it: one for each worker, left as it was found after each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from hpcpack.simulator import Simulator

_running: list[Simulator] = []


@pytest.fixture(scope="session")
def hpcpack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """Four idle nodes."""
    simulator = Simulator.start(str(tmp_path_factory.mktemp("hpcpack")))
    _running.append(simulator)
    try:
        yield simulator
    finally:
        _running.remove(simulator)
        simulator.stop()


@pytest.fixture(autouse=True)
def _hpcpack_left_as_found(request: pytest.FixtureRequest) -> Iterator[None]:
    """Set up before all others of a test, so that it comes last; also for a cluster that a fixture asked for late."""
    yield
    if "hpcpack" in request.fixturenames and _running:
        _running[0].restore()
