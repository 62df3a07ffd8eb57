"""The compute of the tests: the double, or a workspace; and Azure's own client as tests run it.

This folder is no package, since `azure` is Azure's own name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from azure_workspace import end_all, workspace_target
from azureml_double.double import Double
from azureml_double.fixtures import compute_table, double_target
from sdk import Told, run_script

from worldsize_conformance.fixtures import make_place
from worldsize_conformance.place import Place

FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a workspace only those of its compute are run that do not look into the double, or have it fail."""
    if workspace_target() is not None:
        items[:] = [each for each in items if each.path.parent != FOLDER or _is_of_workspace(each)]


def _is_of_workspace(item: pytest.Item) -> bool:
    return isinstance(item, pytest.Function) and "cloud" in item.fixturenames and "double" not in item.fixturenames


@pytest.fixture
def cloud(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A project whose jobs run on a compute of type azureml. It is the double's, whose fixture is `azureml`, unless
    WORLDSIZE_TEST_AZURE names the worldsize.toml of a workspace: then the tests that have neither fixture run there."""
    target = workspace_target()
    if target is None:
        double = request.getfixturevalue("azureml")
        target = double_target(double, compute_table(double, "cloud"))
    yield from make_place(str(tmp_path), target, end=end_all)


@pytest.fixture
def sdk(double: Double, tmp_path: Path) -> Callable[[str], Told]:
    """Runs a script with Azure's own client: see `sdk_client.py`. Its `folder` is `tmp_path / "results"`."""
    return lambda script: run_script(double, script, tmp_path / "results")
