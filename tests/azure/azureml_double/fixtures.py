"""The double as pytest knows it: one for each worker, without faults and running jobs after each test."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator

import pytest

from azureml_double.double import RESOLVER, Double, names_resolved
from worldsize_conformance.place import Target

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
"""The repository: environments of frameworks are directories of it."""


@pytest.fixture(scope="session")
def running_double(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Double]:
    double = Double.start(str(tmp_path_factory.mktemp("azureml")), programs=programs())
    try:
        yield double
    finally:
        double.stop()
    assert not double.errors()


def programs() -> dict[str, str]:
    """Those of the frameworks' environments, for jobs whose environment is AzureML-NAME."""
    found = glob.glob(os.path.join(glob.escape(ROOT), ".venv-*", "bin"))
    return {"AzureML-" + place.rpartition(".venv-")[2].partition(os.sep)[0]: place for place in found}


@pytest.fixture
def double(running_double: Double) -> Iterator[Double]:
    """Without faults, and no job runs; its clusters are `cpu-cluster` of 4 nodes and `small` of 1."""
    yield running_double
    running_double.restore()


@pytest.fixture
def azureml(double: Double, monkeypatch: pytest.MonkeyPatch) -> Iterator[Double]:
    """The double as a compute of worldsize: this process may ask it, too."""
    for name, value in sign_in(double).items():
        monkeypatch.setenv(name, value)
    with names_resolved():
        yield double


def sign_in(double: Double) -> dict[str, str]:
    """What worldsize needs to find the double, to trust it, and to sign in there."""
    kept = {
        name: value for name, value in double.environ().items() if name in ("SSL_CERT_FILE", "AZURE_AUTHORITY_HOST")
    }
    return {
        **kept,
        "REQUESTS_CA_BUNDLE": double.ca_file,
        "AZURE_TENANT_ID": "11111111-2222-3333-4444-555555555555",
        "AZURE_CLIENT_ID": double.client_id,
        "AZURE_CLIENT_SECRET": double.client_secret,
    }


def double_target(double: Double, tables: str, patience: float = 90) -> Target:
    """The compute `cloud` that `tables` of worldsize.toml configure in the double's workspace."""
    return Target("cloud", tables, patience, environ={**sign_in(double), "PYTHONPATH": RESOLVER})


def compute_table(double: Double, name: str) -> str:
    """The compute's table in worldsize.toml."""
    rows = {
        "type": "azureml",
        "subscription_id": double.subscription,
        "resource_group": double.group,
        "workspace_name": double.workspace,
        "compute": "cpu-cluster",
        "endpoint": double.url,
        "environment": "azureml:AzureML-any@latest",
    }
    return "[compute.%s]\n" % name + "".join('%s = "%s"\n' % row for row in rows.items())
