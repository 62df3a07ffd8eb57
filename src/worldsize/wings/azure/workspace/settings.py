"""Settings of a compute of type azureml: the workspace, and the cluster in it. They contain no credentials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

from worldsize.errors import ConfigError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.keys.key import Key

PUBLIC_ENDPOINT = "https://management.azure.com"

KEYS: Mapping[str, Key] = {
    "subscription_id": Key("text", "The subscription that the workspace is in.", blank=False),
    "resource_group": Key("text", "The resource group that the workspace is in.", blank=False),
    "workspace_name": Key("text", "The workspace of Azure Machine Learning.", blank=False),
    "compute": Key("text", "The cluster that jobs run on; without it they run on serverless compute.", blank=False),
    "environment": Key("text", "The environment of jobs that name none: azureml:NAME@latest.", blank=False),
    "endpoint": Key("text", f"Azure's resource manager ({PUBLIC_ENDPOINT}).", blank=False),
    "agent": Key("flag", "Whether worldsize's agent starts and watches the ranks there (true), or the service."),
}
"""The keys of a configured compute."""

SIGN_IN = "`az login`, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET of a service principal"
_NO_SECRET = f"no file stores credentials: {SIGN_IN}"
_SECRETS = ("password", "secret", "token", "credential", "client_id", "tenant")
_NEEDED = {"subscription_id": "00000000-0000-…", "resource_group": "my-group", "workspace_name": "my-workspace"}
_PLACE = ("endpoint", "subscription_id", "resource_group", "workspace_name")
_PROVIDER = "providers/Microsoft.MachineLearningServices"


def complete_settings(values: dict[str, Any]) -> dict[str, Any]:
    """Return `values`, the settings of a compute of type azureml, unchanged. The setting `python` is a path in the
    job's environment."""
    return values


def key_hint(key: str) -> str | None:
    return _NO_SECRET if any(word in key.lower() for word in _SECRETS) else None


class WorkspaceSettings(NamedTuple):
    """The workspace of a compute, and how its jobs run there.

    compute      the name of the workspace's cluster that jobs run on; None: serverless compute
    environment  the environment of jobs that name none; None: such jobs are refused
    endpoint     the address of the resource manager, without a slash at its end
    agent        whether worldsize's agent runs inside the job
    """

    subscription_id: str
    resource_group: str
    workspace_name: str
    compute: str | None = None
    environment: str | None = None
    endpoint: str = PUBLIC_ENDPOINT
    agent: bool = True

    @property
    def scope(self) -> str:
        """The workspace's id, with its parts quoted for a URL. The paths of the workspace begin with it."""
        subscription, group, name = (
            quote(each, safe="") for each in (self.subscription_id, self.resource_group, self.workspace_name)
        )
        return f"/subscriptions/{subscription}/resourceGroups/{group}/{_PROVIDER}/workspaces/{name}"

    @property
    def token_scope(self) -> str:
        """The scope for which an access token is requested at sign-in."""
        return f"{self.endpoint}/.default"


def workspace_settings(settings: ComputeSettings) -> WorkspaceSettings:
    """Return the WorkspaceSettings that the configured `settings` of a compute of type azureml describe. Raise
    ConfigError if a required key is missing or the endpoint is unsafe."""
    said = settings.options
    where = f"compute.{settings.name}"
    for key, example in _NEEDED.items():
        if not said.get(key):
            raise ConfigError(f"compute {settings.name} has no `{key}`", f"{where}.{key}", f'{key} = "{example}"')
    found = WorkspaceSettings(**{name: said[name] for name in WorkspaceSettings._fields if name in said})
    endpoint = found.endpoint.rstrip("/")
    parts = urlsplit(endpoint)
    if parts.scheme != "https" or not parts.netloc:
        what = f"{_without_login(endpoint)} is not an https address: tokens would be sent unencrypted"
        raise ConfigError(what, f"{where}.endpoint", f'endpoint = "{PUBLIC_ENDPOINT}"')
    if "@" in parts.netloc:
        raise ConfigError("a login in an address is never used", f"{where}.endpoint", _NO_SECRET)
    return found._replace(endpoint=endpoint)


def handle_fields(workspace: WorkspaceSettings) -> dict[str, str]:
    """Return the fields of a run's handle that identify `workspace`, by name: the endpoint, the subscription, the
    resource group and the workspace's name. They contain no credentials."""
    return {name: getattr(workspace, name) for name in _PLACE}


def is_same_workspace(workspace: WorkspaceSettings, handle: Mapping[str, Any]) -> bool:
    return all(getattr(workspace, name) == handle.get(name) for name in _PLACE)


def _without_login(address: str) -> str:
    before, found, after = address.rpartition("@")
    return f"…@{after}" if found else before + after
