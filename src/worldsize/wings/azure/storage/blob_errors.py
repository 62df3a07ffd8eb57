"""Errors of Azure's storage as worldsize's errors, without text that may contain a signature."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected, WorldsizeError
from worldsize.wings.azure.workspace.errors import MissingResource

if TYPE_CHECKING:
    from azure.core.exceptions import AzureError

_AGAIN = (408, 429, 500, 502, 503, 504)
_ROLES = 'ask an owner of the storage account for the role "Storage Blob Data Contributor"'
_HINTS = {
    "AuthorizationPermissionMismatch": _ROLES,
    "InsufficientAccountPermissions": _ROLES,
    "KeyBasedAuthenticationNotPermitted": "the account takes no keys: make the workspace's datastores identity-based, "
    'and log in (`az login`) as a user with the role "Storage Blob Data Contributor"',
    "AuthorizationFailure": "the account admits only certain networks: submit from one of them",
    "AuthenticationFailed": "the access that the workspace gave has ended, or this machine's clock is wrong: "
    "submit again; uploaded files are kept",
}


def blob_error(error: AzureError, url: str) -> WorldsizeError:
    """Return the error for an exception that Azure's storage client raised for the container at `url`: MissingResource,
    SubmitAgain if it may work later, ConfigError if there is no login, else SubmitRejected. Only status and code are
    used, since the text may contain signed addresses."""
    status = getattr(error, "status_code", None)
    code = str(getattr(error, "error_code", None) or "")
    code = code if re.fullmatch(r"\w{1,60}", code) else ""
    said = f"{status} {code}".strip()
    if status is None:
        if type(error).__name__ in ("ClientAuthenticationError", "CredentialUnavailableError"):
            return ConfigError("no login of Azure gives access to the workspace's storage", url, "az login")
        return SubmitAgain("the workspace's storage does not answer", url, "submit again; uploaded files are kept")
    if status == 404:
        return MissingResource(f"the workspace's storage has no such object ({said})", url)
    if status in _AGAIN:
        return SubmitAgain(f"the workspace's storage answers {said}", url, "submit again; uploaded files are kept")
    return SubmitRejected(f"the workspace's storage refuses it: {said}", url, _HINTS.get(code))


class _SignatureFilter(logging.Filter):
    """A log filter that removes signatures from urllib3's lines about requests."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = mask_signatures(record.msg)
        if isinstance(record.args, tuple):
            record.args = tuple(map(mask_signatures, record.args))
        return True


def mask_signatures(value: Any) -> Any:
    """Return a text with the signatures of signed URLs (sig=…) masked; a value that is not text is returned
    unchanged."""
    return re.sub(r"(?i)\b(sig=)[^&\s'\"]+", r"\1***", value) if isinstance(value, str) else value


_FILTER = _SignatureFilter()


def hide_signatures() -> None:
    """Remove signatures of addresses from all lines that urllib3 logs in this process."""
    logging.getLogger("urllib3.connectionpool").addFilter(_FILTER)
