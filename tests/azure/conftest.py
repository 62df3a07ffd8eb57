"""The double as pytest knows it: one for each worker. This folder is no package, since `azure` is Azure's own name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from azureml_double.double import Double
from sdk import Told, run_script


@pytest.fixture(scope="session")
def running_double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    double = Double.start(str(tmp_path_factory.mktemp("azureml")))
    try:
        yield double
    finally:
        double.stop()
    assert not double.errors()


@pytest.fixture
def double(running_double: Double) -> Iterator[Double]:
    """Without faults, and no job runs; its clusters are `cpu-cluster` of 4 nodes and `small` of 1."""
    yield running_double
    running_double.restore()


@pytest.fixture
def sdk(double: Double, tmp_path: Path) -> Callable[[str], Told]:
    """Runs a script with Azure's own client: see `sdk_client.py`. Its `folder` is `tmp_path / "results"`."""
    return lambda script: run_script(double, script, tmp_path / "results")
