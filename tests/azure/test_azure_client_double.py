"""The client of a workspace and the sign-in against the double of the service: what it asks, and faults in between."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from azureml_double.double import Double, names_resolved

from worldsize.compute.http.errors import LostAnswer
from worldsize.errors import SubmitRejected
from worldsize.wings.azure.workspace.client import WorkspaceClient
from worldsize.wings.azure.workspace.errors import ExpiredAddress, MissingResource, SignInRefused
from worldsize.wings.azure.workspace.settings import WorkspaceSettings

SOURCE = str(Path(__file__).parents[2] / "src")
PATIENCE = 60.0


class Tokens:
    """The double's, of which a new one comes when it is asked for."""

    def __init__(self, double: Double) -> None:
        self.double, self.token, self.renewed = double, double.new_token(), 0

    def __call__(self, renew: bool) -> str:
        if renew:
            self.token, self.renewed = self.double.new_token(), self.renewed + 1
        return self.token


@pytest.fixture
def tokens(double: Double) -> Tokens:
    return Tokens(double)


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def workspace(
    double: Double, tokens: Tokens, slept: list[float], monkeypatch: pytest.MonkeyPatch
) -> Iterator[WorkspaceClient]:
    """It does not wait: `slept` has the seconds that it would."""
    monkeypatch.setenv("SSL_CERT_FILE", double.ca_file)
    settings = WorkspaceSettings(double.subscription, double.group, double.workspace, endpoint=double.url)
    client = WorkspaceClient(settings, tokens, PATIENCE, clock=lambda: sum(slept), sleep=slept.append)
    with names_resolved(), client:
        yield client


def job(double: Double, command: str) -> dict[str, object]:
    return {
        "properties": {
            "jobType": "Command",
            "command": command,
            "computeId": "%s/computes/small" % double.scope,
            "environmentId": "azureml://registries/azureml/environments/any/versions/1",
        }
    }


def test_a_job_from_its_request_to_its_log(
    double: Double, workspace: WorkspaceClient, tokens: Tokens, slept: list[float]
) -> None:
    """While the service is busy, a token ends, answers are lost and a log is half there."""
    double.fault("/jobs/whole", method="PUT", status=429, headers={"Retry-After": "7"})
    double.fault("/jobs/whole", method="PUT", cut=-1)
    assert workspace.put("/jobs/whole", job(double, "printf 0123456789"))["name"] == "whole"
    assert slept == [7.0, 1.0]
    double.revoke(tokens.token)
    double.wait("whole")
    assert workspace.get("/jobs/whole")["properties"]["status"] == "Completed" and tokens.renewed == 1
    double.fault("/details", status=500, times=2)
    url = workspace.run_history("/runs/whole/details")["logFiles"]["user_logs/std_log.txt"]
    assert slept[2:] == [0.5, 1.0]
    double.fault("std_log.txt", cut=4)
    assert workspace.get_url(url) == b"0123456789"
    assert [workspace.get_url(url, start) for start in (6, 10)] == [b"6789", b""]
    assert tokens.renewed == 1


def test_what_may_have_had_its_effect_is_not_done_twice(double: Double, workspace: WorkspaceClient) -> None:
    workspace.put("/jobs/long", job(double, "sleep 60"))
    double.wait("long", "Running")
    double.fault("/jobs/long/cancel", cut=-1)
    with pytest.raises(LostAnswer, match="did not answer"):
        workspace.post("/jobs/long/cancel")
    assert double.wait("long")["status"] == "Canceled"
    assert sum("/jobs/long/cancel" in line for line in double.requests()) == 1
    workspace.delete("/jobs/long")
    workspace.delete("/jobs/long")
    with pytest.raises(MissingResource):
        workspace.get("/jobs/long")


def test_long_lists_come_whole(double: Double, workspace: WorkspaceClient) -> None:
    """The double lists ten jobs in one answer."""
    names = {"listed-%02d" % number for number in range(12)}
    for name in names:
        workspace.put("/jobs/" + name, job(double, "true"))
    double.fault("/jobs$", skip=1, status=503)
    assert names <= {each["name"] for each in workspace.list_all("/jobs", listViewType="All")}


def test_a_signature_that_has_expired(double: Double, workspace: WorkspaceClient) -> None:
    workspace.put("/jobs/signed", job(double, "echo hello"))
    double.wait("signed")
    url = workspace.run_history("/runs/signed/details")["logFiles"]["user_logs/std_log.txt"]
    before, _, signature = url.partition("&se=")
    with pytest.raises(ExpiredAddress) as caught:
        workspace.get_url("%s&se=2020-01-01T00%%3A00%%3A00Z&%s" % (before, signature.partition("&")[2]))
    assert "sig=" not in str(caught.value)


def test_refusals_name_the_key(double: Double, workspace: WorkspaceClient) -> None:
    with pytest.raises(MissingResource) as caught:
        workspace.get("/computes/nothing")
    assert caught.value.hint == "correct `compute` of the compute"
    with pytest.raises(SubmitRejected) as refused:
        workspace.put("/jobs/bad", {"properties": {"jobType": "Sweep"}})
    assert refused.value.where == "PUT /jobs/bad" and "jobType" in refused.value.what


def test_a_token_that_nobody_knows(double: Double, workspace: WorkspaceClient) -> None:
    double.fault("/computes", status=401, times=2)
    with pytest.raises(SignInRefused, match="refuses the sign-in"):
        workspace.get("/computes")


SIGN_IN = """
import json, sys
from worldsize.errors import WorldsizeError
from worldsize.wings.azure.workspace.client import WorkspaceClient
from worldsize.wings.azure.workspace.credentials import SignIn
from worldsize.wings.azure.workspace.settings import WorkspaceSettings
settings = WorkspaceSettings(*sys.argv[1:4], endpoint=sys.argv[4])
try:
    with WorkspaceClient(settings, SignIn(settings.token_scope), 5) as workspace:
        print(json.dumps([workspace.get("")["name"], "azure.identity" in sys.modules]))
except WorldsizeError as error:
    print(json.dumps(str(error)))
"""


def sign_in(double: Double, **variables: str) -> tuple[object, str]:
    """What a process says that signs in by its environment, and what it writes besides."""
    argv = [sys.executable, "-c", SIGN_IN, double.subscription, double.group, double.workspace, double.url]
    apart = ("AZURE_", "WORLDSIZE_", "IDENTITY_", "MSI_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(apart)}
    environ = {**kept, **double.environ(SOURCE), **variables}
    done = subprocess.run(argv, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def principal(double: Double) -> dict[str, str]:
    return {
        "AZURE_TENANT_ID": "any-tenant",
        "AZURE_CLIENT_ID": double.client_id,
        "AZURE_CLIENT_SECRET": double.client_secret,
    }


def test_a_service_principal_signs_in(double: Double) -> None:
    pytest.importorskip("azure.identity")
    assert sign_in(double, **principal(double)) == ([double.workspace, True], "")


@pytest.mark.exhaustive
def test_a_sign_in_that_is_refused(double: Double) -> None:
    pytest.importorskip("azure.identity")
    said, besides = sign_in(double, **{**principal(double), "AZURE_CLIENT_SECRET": "hunter2"})
    assert "the sign-in to Azure is refused: AADSTS7000215: Invalid client secret provided." in str(said)
    assert "hunter2" not in str(said) and besides == ""


@pytest.mark.exhaustive
def test_nobody_is_signed_in(double: Double, tmp_path: Path) -> None:
    pytest.importorskip("azure.identity")
    said, besides = sign_in(double, HOME=str(tmp_path), PATH="/usr/bin:/bin")
    assert str(said).startswith("no user is signed in to Azure\n  → `az login`") and besides == ""
