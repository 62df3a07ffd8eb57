"""The sign-in at Azure: tokens of `azure-identity`, which are kept only in this process, until shortly before they
expire."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from worldsize.compute.http.errors import one_line
from worldsize.errors import ConfigError, SubmitAgain, WorldsizeError
from worldsize.extras import missing_package_error
from worldsize.wings.azure.workspace.errors import without_signatures
from worldsize.wings.azure.workspace.settings import SIGN_IN

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken, TokenCredential

_MARGIN = 300.0
"""Seconds before its expiry from which a token counts as expired."""

_REFUSED = re.compile(r"AADSTS\d+:[^\r\n]*")
_NO_NETWORK = re.compile(
    r"max retries|newconnectionerror|failed to resolve|name resolution|connection (aborted|refused|reset)|timed out",
    re.IGNORECASE,
)
_NODE_SERVICE = "ManagedIdentityCredential"
"""The credential whose connection errors mean nothing, since only Azure's own machines have its service."""


class SignIn:
    """A callable that returns tokens for a scope. `sign_in(False)` returns the present token, or a new one if it
    expires; `sign_in(True)` a new one.

    Raise ConfigError if azure-identity is missing, no account is signed in, or the sign-in is refused; SubmitAgain if
    it cannot be reached. It never asks at the terminal, and opens no browser.

    `open_credential` returns the credential. By default it is a service principal of the environment, the identity of a
    workload or a machine, or the account that is signed in by `az login`, `azd auth login` or in an editor.
    """

    def __init__(
        self,
        scope: str,
        open_credential: Callable[[], TokenCredential] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._scope = scope
        self._open_credential = open_credential or _open_default
        self._clock = clock
        self._credential: TokenCredential | None = None
        self._token: AccessToken | None = None

    def __call__(self, renew: bool = False) -> str:
        if renew:  # a credential caches tokens, and would return the same again
            self._credential = self._token = None
        if self._token is None or self._token.expires_on - self._clock() < _MARGIN:
            self._token = self._ask()
        return self._token.token

    def _ask(self) -> AccessToken:
        try:
            from azure.core.exceptions import AzureError
        except ImportError:
            raise _missing() from None
        try:
            if self._credential is None:
                self._credential = self._open_credential()
            return self._credential.get_token(self._scope)
        except AzureError as error:
            raise _sign_in_error(str(error)) from None
        except (ValueError, OSError) as error:
            what = f"the variables of the sign-in to Azure cannot be used: {_plain(str(error))}"
            raise ConfigError(what, None, "correct AZURE_TENANT_ID, AZURE_AUTHORITY_HOST, AZURE_CLIENT_…") from None


class StorageLogin:
    """The default sign-in as a credential for storage that issues no signatures. It signs in when a token is
    requested."""

    def __init__(self) -> None:
        self._credential: TokenCredential | None = None

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        if self._credential is None:
            self._credential = _open_default()
        return self._credential.get_token(*scopes, **options)


def _open_default() -> TokenCredential:
    try:
        from azure.identity import AzureAuthorityHosts, DefaultAzureCredential
    except ImportError:
        raise _missing() from None
    import logging

    for name in ("azure", "msal"):  # their warnings become one sentence in the error
        logging.getLogger(name).addHandler(logging.NullHandler())
    host = urlsplit("//" + os.environ.get("AZURE_AUTHORITY_HOST", "").rpartition("://")[2]).hostname
    public = (
        AzureAuthorityHosts.AZURE_PUBLIC_CLOUD,
        AzureAuthorityHosts.AZURE_GOVERNMENT,
        AzureAuthorityHosts.AZURE_CHINA,
    )
    credential: TokenCredential = DefaultAzureCredential(
        exclude_interactive_browser_credential=True,
        disable_instance_discovery=host not in (None, *public),  # the public login does not know private clouds
    )
    return credential


def _missing() -> ConfigError:
    return missing_package_error("Azure's sign-in", "azure-identity", "azure")


def _sign_in_error(said: str) -> WorldsizeError:
    """Return the error for `said`, the message of azure-identity about a failed sign-in: ConfigError if the sign-in is
    refused or no account is signed in, SubmitAgain if it cannot be reached."""
    refused = _REFUSED.search(said)
    if refused:
        return ConfigError(f"the sign-in to Azure is refused: {_plain(refused[0])}", None, SIGN_IN)
    told = [part for part in said.split("\n\t") if not part.startswith(_NODE_SERVICE)]
    if any(_NO_NETWORK.search(part) for part in told):
        return SubmitAgain(
            "the sign-in to Azure cannot be reached", None, "is there a network, or a proxy to be named?"
        )
    return ConfigError("no user is signed in to Azure", None, SIGN_IN)


def _plain(said: str) -> str:
    return one_line(without_signatures(said))
