"""A self-test in a workspace of Azure ML: what reaches its tests, and what no report tells."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from worldsize.errors import ConfigError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.wings.azure.workspace.computes import most_nodes
from worldsize.wings.selftest import facts
from worldsize.wings.selftest.command import sign_in_environ
from worldsize.wings.selftest.private_place import target_of
from worldsize.wings.selftest.redact import leaks, redact

SUBSCRIPTION = "11111111-aaaa-2222-bbbb-333333333333"
OPTIONS = {
    "subscription_id": SUBSCRIPTION,
    "resource_group": "vision-group",
    "workspace_name": "vision-ws",
    "compute": "gpu",
    "environment": "azureml:any@latest",
}
SIGN_IN = {
    "AZURE_TENANT_ID": "contoso.onmicrosoft.com",
    "AZURE_CLIENT_ID": "44444444-aaaa-2222-bbbb-555555555555",
    "AZURE_CLIENT_SECRET": "q~8-very-secret",
}
CLOUD = ComputeSettings("cloud", "azureml", options=OPTIONS)


def test_the_target_names_the_variables_of_the_sign_in_and_holds_none() -> None:
    target = target_of(CLOUD, "/private", 2, {**SIGN_IN, "SSL_CERT_FILE": "/ca.pem", "HF_TOKEN": "hf_x"})
    assert {*target["environ"]} == {*SIGN_IN, "SSL_CERT_FILE"}
    assert (target["inherits"], target["visible"], target["modules"], target["nodes"]) == (False, False, False, 2)
    assert target["patience"] == 900 and "name" in target["unknown"]
    text = json.dumps(target)
    assert "azureml:any@latest" in text and not [secret for secret in SIGN_IN.values() if secret in text]
    elsewhere = target_of(ComputeSettings("lab", "slurm"), "/private", 2, SIGN_IN)
    assert elsewhere["environ"] == [] and elsewhere["modules"]


def test_the_sign_in_of_az_is_found_from_another_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert sign_in_environ(CLOUD, {"A": "b"}) == {"A": "b"}
    (tmp_path / ".azure").mkdir()
    assert sign_in_environ(CLOUD, {})["AZURE_CONFIG_DIR"] == str(tmp_path / ".azure")
    assert sign_in_environ(CLOUD, {"AZURE_CONFIG_DIR": "/own"})["AZURE_CONFIG_DIR"] == "/own"


def test_a_compute_that_names_no_environment_is_refused_at_once() -> None:
    options = {name: value for name, value in OPTIONS.items() if name != "environment"}
    with pytest.raises(ConfigError) as raised:
        sign_in_environ(CLOUD._replace(options=options), {})
    assert raised.value.where == "compute.cloud.environment" and "azureml:NAME@latest" in (raised.value.hint or "")


def test_no_report_tells_whose_workspace_it_is() -> None:
    compute: Any = SimpleNamespace(capabilities=frozenset())
    known = facts.known_secrets(CLOUD, compute, "/private/selftest-x", SIGN_IN)
    text = (
        "PUT https://management.azure.com/subscriptions/%s/resourceGroups/vision-group/workspaces/vision-ws/jobs/j "
        "as 44444444-aaaa-2222-bbbb-555555555555 of contoso.onmicrosoft.com; Trace ID: "
        "99999999-aaaa-2222-bbbb-777777777777; https://visionstore1.blob.core.windows.net/azureml/x?sig=abc%%2Bdef "
        "with q~8-very-secret from visionacr.azurecr.io"
    ) % SUBSCRIPTION
    made = redact(text, known)
    for secret in (SUBSCRIPTION, "vision", "contoso", "44444444", "99999999", "q~8", "sig=abc"):
        assert secret not in made, made
    assert leaks(made, known) == [] and {"id", "account", "store"} <= {*leaks(text, known)}


@pytest.mark.parametrize(
    ("told", "most"),
    [
        ({"properties": {"properties": {"scaleSettings": {"maxNodeCount": 4}}}}, 4),
        ({"properties": {"properties": {"scaleSettings": None}}}, None),
        ({"properties": {}}, None),
        (None, None),
    ],
)
def test_the_most_nodes_of_a_cluster(told: Any, most: int | None) -> None:
    client: Any = SimpleNamespace(get=lambda path: told)
    assert most_nodes(client, "gpu") == most
    compute: Any = SimpleNamespace(capabilities=frozenset(["node limit"]), node_limit=lambda: most)
    assert facts.usable_nodes(compute) == most
