"""What the service refuses with: one sentence, the key that it means, and what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from worldsize.compute.http.errors import LostAnswer, Service, TurnedAway, Unanswered
from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected, WorldsizeError
from worldsize.wings.azure.workspace.errors import (
    Answer,
    ExistingResource,
    ExpiredAddress,
    MissingResource,
    PermissionRefused,
    SignInRefused,
    response_error,
)

SERVICE = Service("the service", "https://endpoint", "`endpoint`", "")
NOW = 1_700_000_000.0
PUBLIC = "Public access is not allowed. Use a private endpoint."


def error(code: str, message: str, *details: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "details": list(details), **more}}


def refusal(
    status: int, body: object, method: str = "PUT", path: str = "/jobs/x", signed: bool = False, **headers: str
) -> WorldsizeError:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return response_error(Answer(status, content, "The phrase", named, NOW), method, path, SERVICE, signed)


@pytest.mark.parametrize(
    ("status", "body", "kind", "what", "hint"),
    [
        (
            400,
            error("InvalidSubscriptionId", "It is malformed."),
            SubmitRejected,
            "It is malformed.",
            "subscription_id",
        ),
        (401, error("Expired", "The token is."), SignInRefused, "refuses the sign-in: The token is.", "az login"),
        (403, error("AuthorizationFailed", "No right."), PermissionRefused, "No right.", "AzureML Data Scientist"),
        (403, error("Forbidden", PUBLIC), PermissionRefused, PUBLIC, "its own network"),
        (404, error("SubscriptionNotFound", "None."), MissingResource, "None.", "`subscription_id` of the compute"),
        (404, error("ResourceGroupNotFound", "None."), MissingResource, "None.", "`resource_group` of the compute"),
        (404, error("ComputeNotFound", "None."), MissingResource, "None.", "`compute` of the compute"),
        (
            404,
            error("ResourceNotFound", "The Resource 'Microsoft.MachineLearningServices/workspaces/w' is not there."),
            MissingResource,
            "workspaces/w' is not there.",
            "`workspace_name` of the compute",
        ),
        (404, error("UserError", "No such job."), MissingResource, "No such job.", ""),
        (409, error("Conflict", "It exists."), ExistingResource, "It exists.", ""),
        (302, b"", ConfigError, "redirects to another address (302): The phrase", "`endpoint` of the compute"),
        (429, error("TooManyRequests", "Slowly."), TurnedAway, "cannot answer now: Slowly. (429)", "try again"),
        (500, b"<html><title>Oh no</title></html>", LostAnswer, "cannot answer now: Oh no (500)", "try again"),
        (418, b"", SubmitRejected, "The phrase", ""),
        (418, b"[1, 2]", SubmitRejected, "[1, 2]", ""),
        (400, {"error": "a text"}, SubmitRejected, "a text", ""),
        (400, {"error": {"code": 5, "message": [], "details": {"a": 1}}}, SubmitRejected, "", ""),
        (400, {"error": {"code": "OnlyACode"}}, SubmitRejected, "OnlyACode", ""),
        (400, b"[" * 100_000, SubmitRejected, "[[[", ""),
    ],
)
def test_what_it_says_and_what_to_do(status: int, body: object, kind: type[Exception], what: str, hint: str) -> None:
    found = refusal(status, body)
    assert type(found) is kind and what in found.what and hint in (found.hint or "")
    assert "\n" not in found.what and len(found.what) < 600


def test_the_details_say_more_than_the_whole() -> None:
    inner = error("UserError", "General.", {"message": "Also general.", "details": [{"message": "Exact."}]})
    assert refusal(400, inner).what == "Exact."
    several = error("UserError", "General.", *({"message": "No. %d" % number} for number in (1, 2, 2, 3, 4)))
    assert refusal(400, several).what == "No. 1; No. 2; No. 3"
    nested = error("UserError", json.dumps(error("Inner", "Within a text.")))
    assert refusal(400, nested).what == "Within a text."


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (
            error("UserError", "Bad.", {"message": "Bad.", "target": "properties.resources.instanceType"}),
            "instance_type",
        ),
        (error("UserError", "Bad.", target="properties.limits.timeout"), "limits.timeout"),
        (error("UserError", "The InstanceCount 9 is more than it has."), ""),
        (error("UserError", "The instanceCount 9 is more than it has."), "resources.instance_count"),
        (error("UserError", "'environmentId' names nothing."), "environment"),
        (error("UserError", "A timeout at all locations; the priority is low."), ""),
    ],
)
def test_the_key_of_the_job_that_it_means(body: object, where: str) -> None:
    found = refusal(400, body)
    assert (str(found.where).endswith(where) if where else found.where == "PUT /jobs/x") and found.hint is None
    assert refusal(400, body, "POST", "/codes/x").where == "POST /codes/x"


@pytest.mark.parametrize(
    ("method", "status", "kind"),
    [
        ("GET", 500, TurnedAway),
        ("GET", 429, TurnedAway),
        ("PUT", 502, LostAnswer),
        ("POST", 504, LostAnswer),
        ("POST", 408, LostAnswer),
        ("POST", 503, TurnedAway),
        ("POST", 429, TurnedAway),
    ],
)
def test_what_may_have_had_its_effect(method: str, status: int, kind: type[Unanswered]) -> None:
    found = refusal(status, b"", method, retry_after="7")
    assert type(found) is kind and isinstance(found, SubmitAgain) and found.pause == 7.0


def test_signed_addresses() -> None:
    failed = b"<Error><Code>AuthenticationFailed</Code><Message>Signature not valid.</Message></Error>"
    found = refusal(403, failed, "GET", "/c/b", True, x_ms_error_code="AuthenticationFailed")
    assert type(found) is ExpiredAddress and "Signature not valid." in found.what
    found = refusal(403, b"", "GET", "/c/b", True, x_ms_error_code="AuthorizationFailure")
    assert type(found) is PermissionRefused and "its own network" in str(found.hint)


@pytest.mark.parametrize(
    "secret",
    [
        "https://a.blob.core.windows.net/c/b?sv=2023&sig=hunter2%3D",
        "https://a.blob.core.windows.net/c?sig=hunter2%3D&se=2024",
        "sp=r&sig=hunter2&x=1",
        "Bearer hunter2.hunter2",
        "bearer hunter2==",
        "eyJhbGciOi.hunter2.hunter2",
    ],
)
def test_no_secret_is_said(secret: str) -> None:
    for status in (400, 401, 403, 404, 500):
        found = refusal(status, error("UserError", "Refused: %s !" % secret))
        assert "hunter2" not in str(found) + repr(found) and "Refused: " in found.what and " !" in found.what
