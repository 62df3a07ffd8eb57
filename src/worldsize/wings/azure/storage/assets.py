"""Versions of assets in a workspace: lookup by the names that jobs use, and creation, once for each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import quote

from worldsize.errors import JobError, SubmitAgain, SubmitRejected
from worldsize.wings.azure.workspace.errors import MissingResource


class AssetClient(Protocol):
    """The interface of a workspace. Paths are below it. A method raises MissingResource for a path that does not exist,
    and SubmitRejected or SubmitAgain for other errors."""

    def get(self, path: str, **params: object) -> dict[str, Any]: ...

    def put(self, path: str, body: Mapping[str, Any], **params: object) -> dict[str, Any]: ...

    def post(self, path: str, body: Mapping[str, Any], **params: object) -> dict[str, Any] | None: ...


def resolve_asset(client: AssetClient, kind: str, text: str) -> str:
    """Return the id of an asset that a job names as azureml:NAME:VERSION or azureml:NAME@latest: an environment (`kind`
    "environments") or data ("data"). Ids, addresses and curated environments (AzureML-…) are returned as they are,
    since the service knows them.

    Raise JobError if there is no such asset, or if the text names no version; else the errors of the client.
    """
    name = text[len("azureml:") :] if text.lower().startswith("azureml:") and text[8:10] != "//" else text
    if "://" in name or name.startswith("/subscriptions/"):
        return name
    if kind == "environments" and name.startswith("AzureML-"):
        return "azureml:" + name
    what = {"environments": "environment"}.get(kind, kind)
    bare, label = name.rpartition("@")[::2] if "@" in name else (name, "")
    bare, version = (bare, "") if label else bare.rpartition(":")[::2]
    if not bare or (label and label != "latest") or not (version or label):
        raise JobError(f"{text} names no version", what, "write azureml:NAME:VERSION or azureml:NAME@latest")
    path = f"/{kind}/{quote(bare, safe='')}"
    try:
        version = version or str(client.get(path)["properties"]["latestVersion"])
        return str(client.get(f"{path}/versions/{quote(version, safe='')}")["id"])
    except MissingResource:
        raise JobError(f"the workspace has no {text}", what, "name one that it has, or upload it") from None


def ensure_version(client: AssetClient, path: str, properties: Callable[[], Mapping[str, Any]]) -> str:
    """Return the id of the asset version at `path` in the workspace. If it does not exist, it is made from the result
    of `properties`. If that is refused or its answer is lost, and the version exists all the same, another client has
    made it meanwhile, and it is used. Raise the errors of the client and of `properties`."""
    try:
        return str(client.get(path)["id"])
    except MissingResource:
        body = {"properties": dict(properties())}
    try:
        return str(client.put(path, body)["id"])
    except (SubmitRejected, SubmitAgain) as refused:
        try:
            return str(client.get(path)["id"])
        except (SubmitRejected, SubmitAgain):
            raise refused from None
