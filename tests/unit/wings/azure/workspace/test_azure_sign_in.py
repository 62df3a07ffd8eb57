"""Tokens: kept until shortly before they expire, and what is said where there is none."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("azure.identity")

from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError

from worldsize.errors import ConfigError, SubmitAgain
from worldsize.wings.azure.workspace.credentials import SignIn

CHAIN = "DefaultAzureCredential failed to retrieve a token from the included credentials.\nAttempted credentials:"
EXPIRED = "\n\tAzureCliCredential: AADSTS70043: The token expired.\nTrace"
UNAVAILABLE = "\n\tEnvironmentCredential: EnvironmentCredential authentication unavailable."
MACHINE = "\n\tManagedIdentityCredential: no response from the IMDS endpoint. Connection refused, timed out"


class Credential:
    """Each token holds for an hour; `error` is raised in its place."""

    opened = 0

    def __init__(self, clock: list[float], error: Exception | None = None) -> None:
        self.clock, self.error = clock, error
        self.asked: list[str] = []

    def open(self) -> Credential:
        self.opened += 1
        return self

    def get_token(self, *scopes: str, **_: object) -> AccessToken:
        self.asked += scopes
        if self.error is not None:
            raise self.error
        return AccessToken("token-%d" % len(self.asked), int(self.clock[0]) + 3600)


def test_a_token_serves_until_shortly_before_it_expires() -> None:
    clock = [1000.0]
    credential = Credential(clock)
    sign_in = SignIn("https://endpoint/.default", credential.open, lambda: clock[0])
    assert [sign_in(False), sign_in(False)] == ["token-1", "token-1"]
    clock[0] += 3300
    assert sign_in(False) == "token-1"
    clock[0] += 1
    assert sign_in(False) == "token-2"
    assert credential.asked == ["https://endpoint/.default"] * 2 and credential.opened == 1
    assert "token" not in repr(sign_in)


def test_a_new_token_comes_of_a_credential_that_has_none_yet() -> None:
    clock = [1000.0]
    credential = Credential(clock)
    sign_in = SignIn("s", credential.open, lambda: clock[0])
    assert [sign_in(False), sign_in(True), sign_in(False)] == ["token-1", "token-2", "token-2"]
    assert credential.opened == 2


@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (
            ClientAuthenticationError(CHAIN + UNAVAILABLE + MACHINE),
            ConfigError,
            "no user is signed in to Azure\n  → `az login`",
        ),
        (
            ClientAuthenticationError(CHAIN + UNAVAILABLE + EXPIRED),
            ConfigError,
            "the sign-in to Azure is refused: AADSTS70043: The token expired.\n  → `az login`",
        ),
        (
            ClientAuthenticationError(CHAIN + "\n\tEnvironmentCredential: HTTPSConnectionPool: Max retries exceeded"),
            SubmitAgain,
            "the sign-in to Azure cannot be reached",
        ),
        (ServiceRequestError("Failed to resolve 'login.microsoftonline.com'"), SubmitAgain, "cannot be reached"),
        (ValueError("Invalid tenant id provided."), ConfigError, "cannot be used: Invalid tenant id provided."),
        (FileNotFoundError(2, "No such file", "cert.pem"), ConfigError, "cannot be used: [Errno 2]"),
    ],
)
def test_nobody_is_signed_in(error: Exception, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind) as caught:
        SignIn("s", Credential([0.0], error).open)(False)
    assert says in str(caught.value) and "Trace" not in str(caught.value)


@pytest.mark.parametrize("package", ["azure.identity", "azure.core.exceptions"])
def test_without_the_package(monkeypatch: pytest.MonkeyPatch, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match="Azure's sign-in needs azure-identity, which is not installed") as caught:
        SignIn("s")(False)
    assert caught.value.hint == "pip install 'worldsize[azure]'"
