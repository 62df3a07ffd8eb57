"""Requirements of a workspace of Azure Machine Learning that this machine and account must meet, checked without
contacting it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from importlib.util import find_spec

from worldsize.agent.posix.processes import find_program
from worldsize.compute.base import CheckResult
from worldsize.extras import missing_package_error
from worldsize.trust.keys import user_home
from worldsize.wings.azure.workspace.settings import SIGN_IN

_PACKAGES = {"httpx": "httpx", "azure.identity": "azure-identity", "azure.storage.blob": "azure-storage-blob"}
_VARIABLES = ("AZURE_CLIENT_ID", "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "MSI_ENDPOINT")
"""Variables of a service principal, of a workload's identity, and of a machine's identity."""
_TOKENS = ("msal_token_cache.json", "msal_token_cache.bin", "azureProfile.json")
"""Files of `az login` in ~/.azure."""


def check_access(environ: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield an error for each package of the extra that is missing, and a notice if there is no sign of a sign-in. No
    token is requested."""
    for module, package in _PACKAGES.items():
        if not _is_installed(module):
            error = missing_package_error("Azure ML", package, "azure")
            yield CheckResult("error", error.what, None, error.hint)
    directory = environ.get("AZURE_CONFIG_DIR") or os.path.join(user_home(environ), ".azure")
    signed_in = any(map(environ.get, _VARIABLES)) or (
        _has_program("az", environ) and any(os.path.exists(os.path.join(directory, name)) for name in _TOKENS)
    )
    if not signed_in:
        yield CheckResult("notice", "no account is signed in, as far as is known here", None, SIGN_IN)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # the package above is missing
        return False


def _has_program(name: str, environ: Mapping[str, str]) -> bool:
    try:
        return bool(find_program(name, environ))
    except OSError:
        return False
