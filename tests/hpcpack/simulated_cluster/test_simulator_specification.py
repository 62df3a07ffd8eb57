"""The simulator against the published specification of HPC Pack's REST API (openapi.yaml, MIT: openapi.LICENSE)."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
import yaml
from hpcpack.simulator import PASSWORD, USER, Simulator
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import (
    negative_data_rejection,
    positive_data_acceptance,
    status_code_conformance,
)

pytestmark = pytest.mark.exhaustive

CASES = 8
REFUSALS = (400, 401, 403, 404, 405, 409, 415)


def specification() -> dict[str, Any]:
    """With its keys as strings, as JSON has them."""
    with open(os.path.join(os.path.dirname(__file__), "openapi.yaml"), encoding="utf-8") as file:
        loaded: dict[str, Any] = json.loads(json.dumps(yaml.safe_load(file), default=str))
    return loaded


schema = schemathesis.openapi.from_dict(specification())
KNOWN = {"jobId": 1, "taskId": 1, "subtaskId": 1}


@schema.hook
def map_path_parameters(context: Any, parameters: dict[str, Any] | None) -> dict[str, Any] | None:
    """Every other job, task and node is one that exists."""
    for name, value in (parameters or {}).items():
        if name in KNOWN and isinstance(value, int) and value % 2:
            parameters[name] = KNOWN[name]  # type: ignore[index]
        elif name == "name" and isinstance(value, str) and len(value) % 2:
            parameters[name] = "127.0.0.2" if "nodes" in context.operation.path else "HPCPoolUsage"  # type: ignore[index]
    return parameters


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    """One node, and a job with a sweep that has been expanded."""
    simulator = Simulator.start(str(tmp_path_factory.mktemp("fuzzed")), 1, no_namespaces=True)
    sweep = {"CommandLine": "true", "Type": "ParametricSweep", "StartValue": 1, "EndValue": 2}
    simulator.wait(simulator.submitted(sweep))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REQUESTS_CA_BUNDLE", simulator.ca_file)
        yield simulator
    assert simulator.process.poll() is None, "it is still there"
    assert simulator.stop() == 0
    assert "Traceback" not in "\n".join(simulator.said)


def test_all_operations_are_loaded() -> None:
    assert len(list(schema.get_all_operations())) == 53


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


class Administrator:
    """Every request bears these credentials, but those that are to bear others or none."""

    def get(self, case: schemathesis.Case, context: Any) -> str:
        return "Basic " + base64.b64encode(("%s:%s" % (USER, PASSWORD)).encode()).decode()

    def set(self, case: schemathesis.Case, data: str, context: Any) -> None:
        case.headers["Authorization"] = data


@schema.auth(Administrator)
@schema.parametrize()
@settings(max_examples=CASES, derandomize=True, suppress_health_check=list(HealthCheck))
def test_operations_conform(case: schemathesis.Case, fuzzed: Simulator, session: requests.Session) -> None:
    """A request that the specification allows may still make no sense to the cluster."""
    response = case.call(base_url=fuzzed.url + "/hpc", session=session)
    unsaid = [status_code_conformance, positive_data_acceptance, negative_data_rejection]
    case.validate_response(response, excluded_checks=unsaid)
    documented = {int(status) for status in case.operation.definition.raw["responses"]}
    assert response.status_code in documented or response.status_code in REFUSALS, response.status_code
    if response.status_code in REFUSALS:
        assert isinstance(json.loads(response.content), str)
